package host

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// What is noted of workers between which nothing goes directly goes with its time, and with either of them.
func TestFailedPairsAreForgotten(t *testing.T) {
	t.Parallel()
	n := newNodes()
	cfg := testConfig("m")
	cfg.Timing.Prune, cfg.Timing.Stalled = time.Millisecond, 100*time.Millisecond
	h, err := Open(t.Context(), cfg, Options{StateDir: t.TempDir(),
		Runtimes: map[string]sdk.Runtime{"memory": &hooked{Runtime: newMemory(t, "m/1"), workers: n.workers}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	n.tell(sdk.WorkerSnapshot, "m/1")
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	h.leaveAlone(pair{"a", "b"}, now.Add(-time.Hour))
	for _, p := range []pair{{"m/1", "a"}, {"a", "m/1"}, {"b", "a"}} {
		h.leaveAlone(p, now.Add(time.Hour))
	}
	hung := func() map[pair]time.Time {
		h.mu.Lock()
		defer h.mu.Unlock()
		return maps.Clone(h.hung)
	}
	if left := hung(); len(left) != 3 {
		t.Errorf("while all are there: %v", left)
	}
	n.tell(sdk.WorkerRemove, "m/1")
	testkit.Until(t, "the node is forgotten", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.workers["m/1"] == nil
	})
	if left := slices.Collect(maps.Keys(hung())); !slices.Equal(left, []pair{{"b", "a"}}) {
		t.Errorf("without it: %v", left)
	}
}
