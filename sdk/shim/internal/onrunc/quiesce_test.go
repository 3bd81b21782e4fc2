//go:build linux

package onrunc

import (
	"errors"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestWhoSeesTheExitMaySeal takes the exit for what a host takes it: nothing of the process writes any more, if it left nothing.
func TestWhoSeesTheExitMaySeal(t *testing.T) {
	for range testkit.Times(3, 10) {
		b := newBox(t, setting{initMode: true})
		for _, script := range []string{"true", "sleep 0.01 & wait", "seq 1 1000 | sort | tail -1"} {
			b.run(sh(script))
		}
		id := b.start(sh("setsid sleep 1000 & sh -c 'sleep 1000 & wait' & wait"))
		if err := b.Quiesce(t.Context(), b.id); !errors.Is(err, sdk.ReasonInUse) {
			t.Fatalf("while a process runs: %v", err)
		}
		b.check(b.SignalProcess(t.Context(), b.id, id, sdk.KILL))
		b.follow(id)
		if err := b.Quiesce(t.Context(), b.id); err != nil {
			t.Fatal(err)
		}
		if _, err := b.tryStart(sh("true")); !errors.Is(err, sdk.ReasonSealed) {
			t.Errorf("started after it was quiesced: %v", err)
		}
	}
}
