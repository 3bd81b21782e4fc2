package host

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestSettlingStaysOwed: what could not be destroyed while its worker was away is destroyed once that is back, though the worker is away for
// a moment just when that is settled, and though nobody asks again.
func TestSettlingStaysOwed(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	const forEver = 1 << 40
	var fails atomic.Int64 // calls that do so yet
	o := &hooked{Runtime: rt}
	o.hook = func(_ context.Context, call, _ string, _ int, real func() error) error {
		if call == "destroy" && fails.Add(-1) >= 0 {
			return errAway
		}
		return real()
	}
	h := openHost(t, o, Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "while :; do sleep 1; done"}}); err != nil {
		t.Fatal(err)
	}
	fails.Store(forEver)
	if err := c.Destroy(t.Context()); err == nil {
		t.Fatal("it was destroyed by a worker that is away")
	}
	fails.Store(1)
	testkit.Until(t, "nothing is left on the worker", func() bool { return len(onWorker(t, rt, "m")) == 0 })
	if fails.Load() >= 0 {
		t.Error("nothing failed while it was settled: this shows nothing")
	}
}
