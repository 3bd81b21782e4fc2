package api

import (
	"context"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestInterruptedClient: a run that ends since its client was interrupted says so, as it does where the client has a host of its own; one whose abort somebody has asked for says that.
func TestInterruptedClient(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(t *testing.T, s *served, interrupt func()) error{
		"the run was interrupted": func(_ *testing.T, _ *served, interrupt func()) error { interrupt(); return nil },
		"the run was aborted": func(t *testing.T, s *served, _ func()) error {
			_, err := s.AbortRun(testkit.Context(t), "a", false)
			return err
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			ctx, interrupt := context.WithCancel(testkit.Context(t))
			defer interrupt()
			ended := make(chan error, 1)
			res, err := s.Run(ctx, RunRequest{RunRequest: host.RunRequest{ID: "a", Job: script("while :; do sleep 0.05; done")}, Told: func(e RunEvent) {
				if e.Kind == host.EventStarted {
					go func() { ended <- end(t, s, interrupt) }()
				}
			}})
			must(t, err)
			must(t, <-ended)
			if step := res.Steps[0]; step.State != host.StepAborted || step.Err == nil || step.Err.Error() != want {
				t.Errorf("its step is %s: %v", step.State, step.Err)
			}
		})
	}
}
