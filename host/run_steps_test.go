package host

import (
	"context"
	"testing"
	"time"
)

// TestVerdictsAreKept: what was told of a step is told of it again when its run is resumed, whatever its container, or its worker, would say of it now.
func TestVerdictsAreKept(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	dir := t.TempDir()
	req := RunRequest{ID: "r", Grace: 30 * time.Second, Job: parseJob(t, `
job "j" {
  step "good" {
    run { path = "true" }
  }
  step "bad" {
    run {
      path = "sh"
      args = ["-c", "exit 3"]
    }
  }
  step "late" {
    timeout = "1ms"
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' TERM; while :; do sleep 0.01; done"]
    }
  }
  step "killed" {
    timeout = "1ms"
    run {
      path = "sleep"
      args = ["1000"]
    }
  }
  step "none" {
    run { path = "no-such-program" }
  }
  step "never" {
    after = [step.bad]
    run { path = "true" }
  }
  step "on" {
    run {
      path = "sleep"
      args = ["1000"]
    }
  }
}`)}
	// run begins the run, and has it ended once the step that does not end by itself runs and all others have ended.
	run := func(interrupt bool) (map[string]StepResult, *RunResult) {
		h := openHost(t, rt, Options{StateDir: dir}, "m")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan Event, 1000)
		begun := req
		begun.Events = func(e Event) { told <- e }
		var res *RunResult
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			res, _ = h.Run(ctx, begun)
		}()
		got, on := make(map[string]StepResult), false
		for len(got) < len(req.Job.Steps)-1 || !on {
			e := <-told
			on = on || e.Step == "on" && e.Kind == EventStarted
			if e.Kind == EventFinished {
				got[e.Step] = *e.Result
			}
		}
		if !interrupt {
			closeTestHost(t, h)
		} else {
			cancel()
		}
		<-ended
		return got, res
	}
	first, _ := run(false)
	for step, state := range map[string]StepState{"good": StepSucceeded, "bad": StepFailed, "late": StepTimedOut, "killed": StepTimedOut, "none": StepErrored, "never": StepSkipped} {
		if first[step].State != state {
			t.Errorf("%s is %s: %v", step, first[step].State, first[step].Err)
		}
	}
	again, res := run(true)
	for step, was := range first {
		is := again[step]
		if is.State != was.State || is.Attempts != was.Attempts || is.Worker != was.Worker || is.Summary() != was.Summary() || (is.Exit == nil) != (was.Exit == nil) {
			t.Errorf("%s: it was told %+v, and then %+v", step, was, is)
		}
	}
	for _, s := range res.Steps {
		if want := again[s.Step].State; s.State != want && s.Step != "on" {
			t.Errorf("%s: it was told as %s, and is kept as %s", s.Step, want, s.State)
		}
	}
}
