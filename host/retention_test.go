package host

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/store"
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
	if _, err := p.Output(0); !errors.Is(err, fs.ErrNotExist) {
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
