package shim

import (
	"context"
	"errors"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestRecognise has a keeper begun anew in a container. Nothing is asked of one that the runtime does not know, and it says why.
func TestRecognise(t *testing.T) {
	w := newWorld(t)
	w.hello.Keeper = "first"
	lost := sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(box), "another")
	d := w.driver(t, Options{Recognise: func(_ context.Context, id sdk.ContainerID, info Info) error {
		if id != box || info.Keeper != "first" || info.Version != "test" {
			return lost
		}
		return nil
	}})
	start(t, d, "p", "true")
	d.Rest(t.Context(), box)
	w.mu.Lock()
	w.hello.Keeper = "second"
	clear(w.processes) // it knows nothing of what ran
	w.mu.Unlock()
	for range 2 {
		if err := d.StartProcess(t.Context(), box, sdk.ProcessSpec{ID: "p", Token: "t", Path: "true"}); !errors.Is(err, lost) {
			t.Errorf("a start: %v", err)
		}
		if all, err := d.ListProcesses(t.Context(), box); !errors.Is(err, lost) {
			t.Errorf("a list: %v, %v", all, err)
		}
		if err := d.FollowProcess(t.Context(), box, "p", 0, sdk.Follow{}); !errors.Is(err, lost) {
			t.Errorf("following: %v", err)
		}
	}
	w.mu.Lock()
	if len(w.processes) > 0 {
		t.Errorf("it was asked to start %v", w.processes)
	}
	w.hello.Keeper = "first"
	w.mu.Unlock()
	testkit.Until(t, "the relays are closed", func() bool { return w.relays() == 0 })
	start(t, d, "q", "true")
}
