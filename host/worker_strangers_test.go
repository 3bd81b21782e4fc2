package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A worker that the configuration has no more is listed for as long as something is on it, nothing of it is decided, and its operator can give it up.
func TestStrangers(t *testing.T) {
	t.Parallel()
	n, dir := newNodes(), t.TempDir()
	rt := &hooked{Runtime: newMemory(t, "m", "n", "idle"), workers: n.workers}
	open := func(workers ...string) *Host {
		h, err := Open(t.Context(), testConfig(workers...), Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": rt}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeTestHost(t, h) })
		n.tell(sdk.WorkerSnapshot, workers...)
		if err := h.Ready(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	rows := func(h *Host) (names []string) {
		t.Helper()
		err := h.store.View(t.Context(), func(tx *store.Tx) error {
			rows, err := tx.Workers()
			for _, r := range rows {
				names = append(names, r.ID)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	h := open("m")
	script(t, h, "owner", "sleep 1000")
	if err := h.CordonWorker(t.Context(), "m", "of old"); err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	closeTestHost(t, open("m", "idle"))

	h = open("n")
	all := h.Workers()
	if len(all) != 2 || all[0].Name != "n" || all[1].Name != "m" || all[1].Plugin != "" || all[1].Up || all[1].State != pool.Stalled || all[1].Why == "" {
		t.Errorf("workers: %+v", all)
	}
	if names := rows(h); len(names) != 2 {
		t.Errorf("recorded are %q, and nothing is left of one of them", names)
	}
	if _, err := h.Container(t.Context(), "owner", ContainerRequest{}); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "put it back, or give it up") {
		t.Errorf("what is on it is asked for: %v", err)
	}
	if row := containerRows(t, h)[0]; row.State != lifecycle.ContainerReady {
		t.Errorf("its container is %s, which nobody can know", row.State)
	}
	for _, order := range []error{h.CordonWorker(t.Context(), "m", ""), h.LandWorker(t.Context(), "m", ""), h.RetireWorker(t.Context(), "x", "")} {
		if !sdk.IsNotFound(order, sdk.KindWorker) {
			t.Errorf("another order: %v", order)
		}
	}
	if err := h.CordonWorker(t.Context(), "m", ""); !strings.Contains(err.Error(), `the configuration has no worker "m"`) || !strings.Contains(err.Error(), "retire m") {
		t.Errorf("to be cordoned: %v", err)
	}
	if err := h.UncordonWorker(t.Context(), "m"); err != nil {
		t.Errorf("what it was told is taken back: %v", err)
	}
	closeTestHost(t, h)

	h = open("m") // it is back
	if all := h.Workers(); len(all) != 1 || !all[0].Up || all[0].State != pool.Running || containerRows(t, h)[0].State != lifecycle.ContainerReady {
		t.Errorf("back: %+v", all)
	}
	closeTestHost(t, h)

	h = open("n")
	if err := h.RetireWorker(t.Context(), "m", ""); err != nil {
		t.Fatal(err)
	}
	if all := h.Workers(); len(all) != 1 {
		t.Errorf("given up: %+v", all)
	}
	p, err := tryScript(t, h, "owner", "sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if out := waitOutcome(t, p); !errors.As(out.Err, new(*LostError)) {
		t.Errorf("what ran there: %+v", out)
	}
	if names := rows(h); len(names) != 1 || names[0] != "n" {
		t.Errorf("recorded are %q", names)
	}
	if err := h.RetireWorker(t.Context(), "m", ""); !sdk.IsNotFound(err, sdk.KindWorker) {
		t.Errorf("given up again: %v", err)
	}
}
