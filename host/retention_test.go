package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestForget: an ended run's records and output go after their time, and not before.
func TestForget(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	j := parseJob(t, `
job "j" {
  step "s" {
    run {
      path = "echo"
      args = ["kept"]
    }
  }
}`)
	var p *Process
	_, err := h.Run(t.Context(), RunRequest{ID: "r", Job: j, Events: func(e Event) {
		if e.Kind == EventStarted {
			p = e.Process
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.forget(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if out := output(t, p); out != "kept\n" {
		t.Errorf("output %q", out)
	}
	if err := h.forget(t.Context(), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Output(t.Context(), 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("output after it was forgotten: %v", err)
	}
	err = h.store.View(t.Context(), func(tx *store.Tx) error {
		runs, err := tx.Runs(store.RunFilter{})
		if err != nil {
			return err
		}
		processes, err := tx.Processes(store.ProcessFilter{})
		if len(runs)+len(processes)+len(containerRows(t, h)) > 0 {
			t.Errorf("left: %v %v", runs, processes)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestForgetMany: what no run has goes after its time, too, however much it is, and what is younger stays.
func TestForgetMany(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	now := time.Now()
	err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
		for i := range 2*forgetAtOnce + 1 {
			id := fmt.Sprint("c", i)
			c := store.Container{ID: id, Worker: "m", Owner: "of/" + id, Token: "t", State: lifecycle.ContainerDestroyed, CreatedAt: now, UpdatedAt: now.Add(-time.Hour)}
			if i == 7 {
				c.UpdatedAt = now
			}
			if err := tx.PutContainer(c); err != nil {
				return err
			}
			if err := tx.PutProcess(store.Process{ID: "p" + id, Container: id, Token: "t", State: lifecycle.ProcessExited}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.forget(t.Context(), now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	err = h.store.View(t.Context(), func(tx *store.Tx) error {
		processes, err := tx.Processes(store.ProcessFilter{})
		if left := containerRows(t, h); len(left) != 1 || left[0].ID != "c7" || len(processes) != 1 || processes[0].Container != "c7" {
			t.Errorf("left: %v, %v", left, processes)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Output of which no row is left, as a kill between the two leaves it, is removed by the next host; what has a row stays.
func TestStrayOutput(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var h *Host
	kill, closed := true, make(chan struct{})
	fault := func(point string) {
		if point != "forgot" || !kill {
			return
		}
		kill = false
		go func() { closeTestHost(t, h); close(closed) }()
		<-h.ctx.Done()
	}
	h = openHost(t, rt, Options{StateDir: dir, fault: fault}, "m")
	old, young := script(t, h, "old", "echo old"), script(t, h, "young", "echo young")
	for _, p := range []*Process{old, young} {
		if o := waitOutcome(t, p); o.Exit == nil {
			t.Fatal(o.Err)
		}
	}
	for _, row := range containerRows(t, h) {
		row.State = lifecycle.ContainerDestroyed
		if row.Owner == "old" {
			row.UpdatedAt = time.Now().Add(-time.Hour)
		}
		if err := h.putContainer(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.forget(h.ctx, time.Now().Add(-time.Minute)); !errors.Is(err, context.Canceled) {
		t.Fatalf("forgotten by a host that ended meanwhile: %v", err)
	}
	<-closed
	stored := func(h *Host) []string {
		ids, err := h.spool.IDs()
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	if ids := stored(h); len(ids) != 2 {
		t.Fatalf("before the next host there is output of %q", ids)
	}
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	testkit.Until(t, "the stray output is removed", func() bool { return len(stored(h)) < 2 })
	if ids := stored(h); !slices.Equal(ids, []string{young.id}) {
		t.Errorf("output is left of %q", ids)
	}
	// One that cannot be removed yet is another time, and keeps the others from nothing.
	w, err := h.spool.Writer("a-main")
	if err != nil {
		t.Fatal(err)
	}
	other, err := h.spool.Writer("b-main")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.removeStray(t.Context()); !errors.Is(err, spool.ErrBusy) {
		t.Errorf("with a writer: %v", err)
	}
	if ids := stored(h); !slices.Equal(ids, []string{"a-main", young.id}) {
		t.Errorf("output is left of %q", ids)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.removeStray(t.Context()); err != nil || !slices.Equal(stored(h), []string{young.id}) {
		t.Errorf("output is left of %q, %v", stored(h), err)
	}
}

// TestOutputSize: what is more than the state directory keeps of one process's output is told as a gap, and the process goes on to its end.
func TestOutputSize(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Reaping.OutputSize = 10
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo 12345; echo 67890; echo more; exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	end, err := p.Wait(testkit.Context(t))
	if err != nil || end.Exit == nil || end.Exit.Code != 3 {
		t.Errorf("%+v, %v", end, err)
	}
	if out := output(t, p); out != "12345\n6789<gap>" {
		t.Errorf("output %q", out)
	}
}
