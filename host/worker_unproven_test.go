package host

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestUnprovenWithoutIncarnation has a runtime that cannot tell its stores from others: a worker whose settings have changed is known by what it lists.
func TestUnprovenWithoutIncarnation(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Bool
	rt := &hooked{Runtime: newMemory(t, "m"), status: func(_ context.Context, _ int, s *sdk.Status) error {
		s.ContainerIncarnation, s.VolumeIncarnation = "", ""
		return nil
	}, lists: func(things *listing) {
		if elsewhere.Load() {
			things.containers, things.volumes = nil, nil
		}
	}}
	h := openHost(t, rt, Options{}, "m")
	if _, err := h.Container(testkit.Context(t), "owner", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere.Store(true)
	m := &unproven{seen: make(chan struct{}), accepted: make(chan struct{})}
	close(m.accepted)
	w.setUnproven(m)
	w.lookNow()
	select {
	case <-m.seen:
	case <-testkit.Context(t).Done():
		t.Fatal("it is not looked at")
	}
	if !errors.As(m.err, new(*elsewhereError)) {
		t.Errorf("that it lists nothing that is recorded is %v", m.err)
	}
	testkit.Until(t, "it is away", func() bool { return !reportOf(t, h, "m").Up })
	elsewhere.Store(false)
	w.lookNow()
	testkit.Until(t, "it is back", func() bool { return reportOf(t, h, "m").Up })
	if w.unprovenNow() != nil {
		t.Error("it is not proven yet to be the one that it was")
	}
}
