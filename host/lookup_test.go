package host

import (
	"fmt"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// TestRunByID finds runs as Runs lists them, without reading those that it was not asked for.
func TestRunByID(t *testing.T) {
	h := openHost(t, newMemory(t, "w"), Options{}, "w")
	const others = 500
	at := time.Now().Truncate(time.Second)
	err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
		for i := range others {
			if err := tx.PutRun(store.Run{ID: fmt.Sprintf("other-%d", i), State: lifecycle.RunEnded, CreatedAt: at, EndedAt: at.Add(time.Minute)}); err != nil {
				return err
			}
		}
		return tx.PutRun(store.Run{ID: "going", State: lifecycle.RunGoing, CreatedAt: at})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.RunByID(t.Context(), "none"); !sdk.IsNotFound(err, "run") {
		t.Errorf("a run that there is not: %v", err)
	}
	all, err := h.Runs(t.Context())
	if err != nil || len(all) != others+1 {
		t.Fatalf("%d runs, %v", len(all), err)
	}
	for _, want := range []RunInfo{all[0], all[others]} {
		if got, err := h.RunByID(t.Context(), want.ID); got != want || err != nil {
			t.Errorf("run %s is %+v, %v; listed as %+v", want.ID, got, err, want)
		}
	}
	looks := func() error {
		_, err := h.RunByID(t.Context(), "going")
		if err != nil {
			return err
		}
		return h.Check(t.Context())
	}
	before := allocated()
	const times = 100
	for range times {
		if err := looks(); err != nil {
			t.Fatal(err)
		}
	}
	if made := allocated() - before; made > times*others {
		t.Errorf("%d looks made %d things in memory, where there are %d runs", times, made, others)
	}
}

// allocated is how many things in memory this program has made.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
