package host

import (
	"errors"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// A step goes where the one ran that it is to be with, though another worker has its input; where that worker does not suit it, it fails and
// says so.
func TestStepWithAnother(t *testing.T) {
	t.Parallel()
	cfg := testConfig("a", "b")
	cfg.Placement = config.Default().Placement
	cfg.Workers[0].Platform, cfg.Workers[1].Platform = "one", "other"
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a", "b")}})
	res, err := h.Run(t.Context(), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "data" {
    platform = "other"
    outputs  = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  step "first" {
    platform = "one"
    run { path = "true" }
  }
  step "near" {
    inputs = { o = step.data.o }
    run {
      path = "cat"
      args = ["o/f"]
    }
  }
  step "with" {
    with   = step.first
    inputs = { o = step.data.o }
    run {
      path = "cat"
      args = ["o/f"]
    }
  }
  step "torn" {
    with     = "first"
    platform = "other"
    run { path = "true" }
  }
}`)})
	if err != nil {
		t.Fatal(err)
	}
	on := make(map[string]string)
	for _, s := range res.Steps {
		on[s.Step] = s.Worker
		none, is := errors.AsType[*pool.NoWorkerError](s.Err)
		if torn := s.Step == "torn"; torn != is || !torn && s.State != StepSucceeded || torn && none.Spec.With != "a" {
			t.Errorf("step %s %s on %s: %v", s.Step, s.State, s.Worker, s.Err)
		}
	}
	if on["data"] != "b" || on["near"] != "b" || on["first"] != "a" || on["with"] != "a" {
		t.Errorf("the steps ran on %v", on)
	}
}
