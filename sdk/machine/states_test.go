//go:build linux

package machine

import (
	"errors"
	"testing"

	"github.com/slipway-run/slipway/sdk"
)

// TestStates: calls on a container that is half made, and on one that runs no more, are answered as the table of RULES.md says.
func TestStates(t *testing.T) {
	w := newWorker(t, &author{}, options(t))
	spec := sdk.ContainerSpec{ID: "c", Token: "t", Mounts: []sdk.Mount{{Volume: "missing", Path: "/v"}}}
	put := func(rec record) {
		t.Helper()
		unlock, err := w.containers.Make(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		rec.Spec, rec.Attempt = spec, "a"
		if err := w.containers.Write("c", rec); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(state string, want map[string]sdk.Reason) {
		t.Helper()
		_, listed := w.ListProcesses(t.Context(), "c")
		for call, err := range map[string]error{
			"start":  w.StartProcess(t.Context(), "c", sdk.ProcessSpec{ID: "p", Token: "t", Path: "true"}),
			"list":   listed,
			"follow": w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}),
			"signal": w.SignalProcess(t.Context(), "c", "p", sdk.TERM),
			"resize": w.ResizeProcess(t.Context(), "c", "p", sdk.TTY{}),
		} {
			if !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, want[call]) {
				t.Errorf("%s in a container that is %s: %v, want %s", call, state, err, want[call])
			}
		}
		another := spec
		another.Token = "u"
		if err := w.CreateContainer(t.Context(), another, nil); !errors.Is(err, sdk.AlreadyExists) {
			t.Errorf("with another token: %v", err)
		}
	}

	put(record{State: sdk.ContainerCreating, Boot: w.boot})
	answers("half made", map[string]sdk.Reason{"start": sdk.ReasonCreating, "list": sdk.ReasonCreating, "follow": sdk.ReasonCreating,
		"signal": sdk.ReasonCreating, "resize": sdk.ReasonCreating})

	spec.Mounts = nil
	put(record{State: sdk.ContainerReady, Boot: "another"})
	if all := w.all(t); len(all) != 1 || all[0].State != sdk.ContainerGone {
		t.Errorf("listed as %+v", all)
	}
	if err := w.CreateContainer(t.Context(), spec, nil); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("creating again what is gone: %v", err)
	}
	answers("gone", map[string]sdk.Reason{"start": sdk.ReasonDead, "list": sdk.ReasonRecordLost, "follow": sdk.ReasonRecordLost,
		"signal": sdk.ReasonRecordLost, "resize": sdk.ReasonRecordLost})
	if err := w.DestroyContainer(t.Context(), "c"); err != nil {
		t.Error(err)
	}
}
