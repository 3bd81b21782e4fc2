package host

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestRelayCancelled: whoever gives up a stream through the host ends both its ends, each behind a plugin's process, and the call returns. Nothing else could end any of them: neither end
// moves a byte by itself or looks at anything but its context, and what would end a stream that stands still has an hour.
func TestRelayCancelled(t *testing.T) {
	t.Parallel()
	world := startWorldOf(t, 0, "a", "b")
	began, ended := make(chan string, 2), make(chan string, 2)
	var once sync.Map // the first stream out of a, and the first into b
	world.hook = func(ctx context.Context, call, worker string, _ int, real func() error) error {
		end := call + " " + worker
		if end != "stream-out a" && end != "stream-in b" {
			return real()
		}
		if _, again := once.LoadOrStore(end, true); again {
			return real()
		}
		began <- end
		<-ctx.Done()
		ended <- end
		return ctx.Err()
	}
	cfg := worldConfig(memoryPlugin(t), world.socket, "a")
	cfg.Workers = append(cfg.Workers, config.Worker{Name: "b", Plugin: "memory"})
	cfg.Timing = testTiming
	h := openConfig(t, cfg, Options{Launch: restless()})
	art, err := h.AddDir(t.Context(), "data", "", tree(t, map[string]string{"f": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.replicate(t.Context(), art, mustWorker(t, h, "a"), nil); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	delete(h.local, art.ID) // which would be another source
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		_, err := h.replicate(ctx, art, mustWorker(t, h, "b"), nil)
		returned <- err
	}()
	bound := testkit.Context(t)
	both := func(what string, at <-chan string) {
		t.Helper()
		seen := make(map[string]bool)
		for len(seen) < 2 {
			select {
			case end := <-at:
				seen[end] = true
			case <-bound.Done():
				t.Fatalf("%s: only %v", what, seen)
			}
		}
	}
	both("the stream has begun", began)
	cancel()
	both("the contexts have ended", ended)
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-bound.Done():
		t.Fatal("the call has not returned")
	}
	testkit.Until(t, "nothing is left on b", func() bool { return len(onWorker(t, world.Runtime, "b")) == 0 })
	if _, err := h.replicate(t.Context(), art, mustWorker(t, h, "b"), nil); err != nil {
		t.Errorf("asked for again: %v", err)
	}
}
