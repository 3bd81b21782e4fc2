package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// runLeft runs until its one step has started, and ends the host then; the step goes on, and ends once somebody sends it USR1.
func runLeft(t *testing.T, rt sdk.Runtime, dir string) RunRequest {
	t.Helper()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	req := RunRequest{ID: "r", Inputs: map[string]string{"in": tree(t, map[string]string{"f": "mine"})},
		Outputs: map[string]string{"o": filepath.Join(t.TempDir(), "out")}, Job: parseJob(t, `
job "j" {
  input "in" {}
  step "s" {
    inputs  = { in = input.in }
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "trap 'cat in/f > o/f; exit 0' USR1; echo ready; while :; do sleep 0.01; done"]
    }
  }
  output "o" { from = step.s.o }
}`)}
	req.Events = func(e Event) {
		if e.Kind == EventStarted {
			if _, err := firstRecord(t, e.Process); err != nil {
				t.Error(err)
			}
			h.cancel()
		}
	}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, ErrClosed) {
		t.Fatalf("the run has ended though its host has: %v", err)
	}
	closeTestHost(t, h)
	req.Events = nil
	return req
}

func firstRecord(t testing.TB, p *Process) (string, error) {
	r, err := p.Output(t.Context(), 0)
	if err != nil {
		return "", err
	}
	defer r.Close()
	rec, err := r.Next(testkit.Context(t))
	return string(rec.Data), err
}

// wantsItsEnd resumes a run with what it was begun with, and wants it to come to its end.
func wantsItsEnd(t *testing.T, rt sdk.Runtime, dir string, req RunRequest) {
	t.Helper()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	req.Events = func(e Event) {
		if e.Kind == EventStarted {
			if err := e.Process.Signal(t.Context(), "USR1"); err != nil {
				t.Error(err)
			}
		}
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil || !res.Succeeded() {
		t.Fatalf("%s: %v", states(res), err)
	}
	if got, err := os.ReadFile(filepath.Join(req.Outputs["o"], "f")); err != nil || string(got) != "mine" {
		t.Errorf("it made %q, %v", got, err)
	}
}

// TestResumeWithoutItsWorker: a configuration that lacks the worker of a run under way is refused with the names, and nothing of the run is touched: with
// the right one it comes to its end.
func TestResumeWithoutItsWorker(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	req := runLeft(t, rt, dir)
	h := openHost(t, newMemory(t, "other"), Options{StateDir: dir}, "other")
	res, err := h.Run(t.Context(), req)
	if res != nil || !errors.Is(err, sdk.ReasonConfig) || !strings.Contains(err.Error(), "worker m,") || !strings.Contains(err.Error(), "other") {
		t.Errorf("%+v, %v", res, err)
	}
	if s := stateOf(t, h, RunOwner("r", "s")); s != lifecycle.ContainerReady {
		t.Errorf("its container is %s", s)
	}
	closeTestHost(t, h)
	wantsItsEnd(t, rt, dir, req)
}

// TestResumeWithAnotherInput: another directory is refused with both names; the one that the run was begun with is taken however it is written.
func TestResumeWithAnotherInput(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	req := runLeft(t, rt, dir)
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	was := req.Inputs["in"]
	req.Inputs = map[string]string{"in": tree(t, map[string]string{"f": "another's"})}
	res, err := h.Run(t.Context(), req)
	if res != nil || !errors.Is(err, sdk.ReasonSpec) || !strings.Contains(err.Error(), was) || !strings.Contains(err.Error(), req.Inputs["in"]) {
		t.Errorf("%+v, %v", res, err)
	}
	closeTestHost(t, h)
	req.Inputs["in"] = was + "/../" + filepath.Base(was) + "/"
	wantsItsEnd(t, rt, dir, req)
}

// TestAbortRun: an operator ends a run that nobody resumes, without its job: all of it goes, and it has ended for good.
func TestAbortRun(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	req := runLeft(t, rt, dir)
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	if _, err := h.AbortRun(t.Context(), "none"); !errors.Is(err, sdk.NotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	if !h.enterRun("r") {
		t.Fatal("it is under way")
	}
	if _, busy := errors.AsType[*RunBusyError](abortError(h, "r")); !busy {
		t.Error("one that is under way is given up")
	}
	h.visited("r")
	for range 2 {
		res, err := h.AbortRun(testkit.Context(t), "r")
		if err != nil || res.Abandoned == "" || states(res) != "s=aborted" {
			t.Errorf("%+v, %v", res, err)
		}
		if left := onWorker(t, rt, "m"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, sdk.ReasonAbandoned) {
		t.Errorf("it is resumed with %v", err)
	}
}

func abortError(h *Host, id string) error {
	_, err := h.AbortRun(context.Background(), id)
	return err
}

// TestAbortWithoutItsWorker: what a run has on a worker that the host does not have is told as owed, and goes with a host that has it.
func TestAbortWithoutItsWorker(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	runLeft(t, rt, dir)
	h := openHost(t, newMemory(t, "other"), Options{StateDir: dir}, "other")
	if res, err := h.AbortRun(testkit.Context(t), "r"); err != nil || res.Abandoned == "" {
		t.Errorf("%+v, %v", res, err)
	}
	if left := h.AwaitOwed(testkit.Context(t)); left["m"].Containers != 1 {
		t.Errorf("owed: %v", left)
	}
	closeTestHost(t, h)
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	testkit.Until(t, "the worker is empty", func() bool { return len(onWorker(t, rt, "m")) == 0 })
	var rows []store.Volume
	testkit.Until(t, "no row is left", func() bool {
		var err error
		if rows, err = h.volumes(t.Context(), store.VolumeFilter{}); err != nil {
			t.Fatal(err)
		}
		return len(rows) == 0
	})
}
