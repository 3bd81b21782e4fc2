package host

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// lateJob is a step that ends when it gets TERM, or USR1, with code 0 either way.
const lateJob = `
job "late" {
  input "text" {}
  step "s" {
    timeout = %q
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "trap 'echo told; exit 0' TERM; trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done"]
    }
  }
  output "copy" { from = step.s.o }
}`

// leaveLate runs a job until its step has started, has a test do something, and ends the host then. The step goes on.
func leaveLate(t *testing.T, rt sdk.Runtime, opts Options, meanwhile func(*Host)) RunRequest {
	t.Helper()
	h := openHost(t, rt, opts, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, fmt.Sprintf(lateJob, "1h")), Inputs: map[string]string{"text": t.TempDir()}}
	req.Events = func(e Event) {
		if e.Kind != EventStarted {
			return
		}
		if _, err := firstRecord(t, e.Process); err != nil {
			t.Error(err)
		}
		meanwhile(h)
		h.cancel()
	}
	if _, err := h.Run(t.Context(), req); !errors.Is(err, ErrClosed) {
		t.Fatalf("the run has ended though its host has: %v", err)
	}
	closeTestHost(t, h)
	req.Events = nil
	return req
}

// lateRow is the row of the step's process.
func lateRow(t *testing.T, h *Host) (row store.Process) {
	t.Helper()
	err := h.store.View(t.Context(), func(tx *store.Tx) error {
		rows, err := tx.Processes(store.ProcessFilter{})
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("%d processes", len(rows))
		}
		if err == nil {
			row = rows[0]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// wantsTimedOut waits until the step was ended without anybody who drives its run, and resumes the run then.
func wantsTimedOut(t *testing.T, h *Host, req RunRequest, after time.Duration) {
	t.Helper()
	testkit.Until(t, "the step is ended, and its container is gone", func() bool {
		row := lateRow(t, h)
		over := row.State == lifecycle.ProcessExited || row.State == lifecycle.ProcessAborted
		return over && row.TimedOut && stateOf(t, h, RunOwner("r", "s")) == lifecycle.ContainerDestroyed
	})
	if figures := h.Figures(); figures.Runs["stopped"] != 1 || figures.Runs["running"] != 0 {
		t.Errorf("runs are %v", figures.Runs)
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Steps[0]; s.State != StepTimedOut || !errors.Is(s.Err, errTimeout{after}) || s.Attempts != 1 {
		t.Errorf("whoever resumes the run is told %s, %v, attempt %d", s.State, s.Err, s.Attempts)
	}
}

// TestTimeoutAfterRestart: a step's timeout binds while nobody has resumed its run, and counts from when the step started.
func TestTimeoutAfterRestart(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	opts := Options{StateDir: dir, clock: clk.clock()}
	req := leaveLate(t, rt, opts, func(*Host) { clk.pass(20 * time.Minute) })
	clk.pass(20 * time.Minute) // without a host
	h := openHost(t, rt, opts, "m")
	if row := lateRow(t, h); row.State != lifecycle.ProcessRunning || h.deadlineOf(row).left(clk.clock().wall()) != 20*time.Minute {
		t.Fatalf("it is %s, its deadline %v at %v", row.State, row.Deadline, clk.clock().wall())
	}
	clk.awaited(t, 20*time.Minute)
	clk.pass(20 * time.Minute)
	wantsTimedOut(t, h, req, time.Hour)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestResumedTimeout: a run that is resumed holds its step to what is left of the timeout, not to all of it again.
func TestResumedTimeout(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	opts := Options{StateDir: dir, clock: clk.clock()}
	req := leaveLate(t, rt, opts, func(*Host) { clk.pass(50 * time.Minute) })
	h := openHost(t, rt, opts, "m")
	req.Events = func(e Event) {
		if e.Kind == EventStarted {
			clk.awaited(t, 10*time.Minute)
			clk.pass(10 * time.Minute)
		}
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil || res.Steps[0].State != StepTimedOut || !errors.Is(res.Steps[0].Err, errTimeout{time.Hour}) {
		t.Errorf("%s: %v, %v", states(res), res.Steps[0].Err, err)
	}
}

// TestEndedInTime: a step that ended by itself while there was no host has ended so, however late the next host comes.
func TestEndedInTime(t *testing.T) {
	t.Parallel()
	rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
	opts := Options{StateDir: dir, clock: clk.clock()}
	req := leaveLate(t, rt, opts, func(*Host) {})
	w, err := rt.Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	var id sdk.ContainerID
	err = w.ListContainers(t.Context(), sdk.Filter{}, func(i sdk.ContainerInfo) error { id = i.ID; return nil })
	if err == nil {
		err = w.SignalProcess(t.Context(), id, MainProcess, "USR1")
	}
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "it has ended", func() bool {
		infos, err := w.ListProcesses(t.Context(), id)
		return err == nil && len(infos) == 1 && infos[0].State == sdk.ProcessExited
	})
	clk.pass(2 * time.Hour)
	h := openHost(t, rt, opts, "m")
	if h.newProcess(lateRow(t, h), RunOwner("r", "s"), mustWorker(t, h, "m")).stillRuns(testkit.Context(t)) {
		t.Error("it is taken for running, and would be ended for its timeout")
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil || !res.Succeeded() {
		t.Errorf("%s: %v, %v", states(res), res.Steps[0].Err, err)
	}
}

// TestDeadlineAfterAJump: a deadline moves with the wall clock, so that the next host does not take it for passed, or for far away.
func TestDeadlineAfterAJump(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{2 * time.Hour, -30 * time.Minute, -2 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			rt, dir, clk := newMemory(t, "m"), t.TempDir(), newTestClock()
			opts := Options{StateDir: dir, clock: clk.clock()}
			req := leaveLate(t, rt, opts, func(h *Host) {
				was := lateRow(t, h).Deadline
				clk.awaited(t, wallTick)
				clk.set(by)
				clk.pass(wallTick)
				testkit.Until(t, "its deadline has moved", func() bool { return lateRow(t, h).Deadline.Equal(was.Add(by)) })
			})
			h := openHost(t, rt, opts, "m")
			left := time.Hour - wallTick
			if row := lateRow(t, h); row.State != lifecycle.ProcessRunning || h.deadlineOf(row).left(clk.clock().wall()) != left {
				t.Fatalf("it is %s, its deadline %v at %v", row.State, row.Deadline, clk.clock().wall())
			}
			clk.awaited(t, left)
			clk.set(-by) // what this host counts, nobody sets
			clk.pass(left)
			wantsTimedOut(t, h, req, time.Hour)
		})
	}
	d := deadline{timeout: time.Hour, at: time.Unix(10_000, 0)}
	if left := d.left(time.Unix(0, 0)); left != time.Hour {
		t.Errorf("the clock was set back while there was no host, and %s are left of an hour", left)
	}
}

// TestTimeoutAfterKill: the timeout binds though the host was killed before it could note that the step runs.
func TestTimeoutAfterKill(t *testing.T) {
	t.Parallel()
	world, state := startWorld(t, "m", fewLines), t.TempDir()
	spec := childSpec{Plugin: memoryPlugin(t), Socket: world.socket, State: state, Run: "r", Input: t.TempDir(), Output: t.TempDir(),
		Job: fmt.Sprintf(lateJob, "300ms"), Point: "started", Nth: 1}
	if _, killed := startHost(t, spec); !killed {
		t.Fatal("the point was not reached")
	}
	h := openConfig(t, worldConfig(spec.Plugin, world.socket, "m"), Options{StateDir: state, Launch: restless()})
	req := RunRequest{ID: "r", Job: parseJob(t, spec.Job), Inputs: map[string]string{"text": spec.Input}}
	wantsTimedOut(t, h, req, 300*time.Millisecond)
}
