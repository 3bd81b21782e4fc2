package host

import (
	"testing"
	"testing/synctest"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
)

// A worker that is put back with the orders that it had, just as its operator takes them back, has none.
func TestUncordonedWhilePutBack(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		h := openHost(t, newMemory(t, "m"), Options{}, "m")
		h.mu.Lock()
		h.ordered["x"] = orders{pool.Cordoned, "of old"}
		h.mu.Unlock()
		let, begun, done := make(chan struct{}), make(chan struct{}), make(chan error, 2)
		go func() {
			done <- h.store.Update(t.Context(), store.KillSafe, func(*store.Tx) error {
				close(begun)
				<-let
				return nil
			})
		}()
		<-begun
		go func() { done <- h.UncordonWorker(t.Context(), "x") }()
		synctest.Wait() // it waits for its turn to write
		w := h.plugin("memory").worker("x")
		close(let)
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if o := w.ordered(); o != (orders{}) {
			t.Errorf("it has the orders %+v", o)
		}
	})
}
