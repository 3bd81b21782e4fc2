package host

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// An artifact that becomes a run's input while somebody keeps it under a key stays the run's: else it would go while the run needs it.
func TestInputOfARunIsNoCache(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t testing.TB) {
		h := openHost(t, newMemory(t, "m"), Options{}, "m")
		ctx := testkit.Context(t)
		a, err := h.Upload(ctx, Upload{Name: "upload"}, strings.NewReader(string(archiveOf(t, "", map[string]string{"f": "x"}))))
		if err != nil {
			t.Fatal(err)
		}
		change := func(of func(*store.Artifact)) error {
			return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
				row, err := tx.Artifact(a.ID)
				if err != nil {
					return err
				}
				of(&row)
				return tx.PutArtifact(row)
			})
		}
		let, begun, taken, kept := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
		go func() {
			taken <- change(func(row *store.Artifact) {
				close(begun)
				<-let
				row.Owner = RunOwner("r", "")
			})
		}()
		<-begun
		go func() { kept <- h.KeepCache(ctx, a, CacheRequest{Key: "k"}) }()
		synctest.Wait() // it waits for its turn to write
		close(let)
		if err := <-taken; err != nil {
			t.Fatal(err)
		}
		if err := <-kept; !errors.Is(err, sdk.Invalid) {
			t.Errorf("keeping what a run has taken: %v", err)
		}
		if _, err := h.FindCache(ctx, "", "k", h.clock.wall()); !sdk.IsNotFound(err, KindArtifact) {
			t.Errorf("under the key: %v", err)
		}
		if err := change(func(row *store.Artifact) { row.Owner = "" }); err != nil {
			t.Fatal(err)
		}
		if err := h.KeepCache(ctx, a, CacheRequest{Key: "k"}); err != nil {
			t.Errorf("once it is nobody's: %v", err)
		}
	})
}
