//go:build linux

package onnomad

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestTriedAgain has a step's node rebooted under it, without its allocations and without what its agent knew of them. The step is lost, for a reason that tells
// an operator what happened; its second attempt, on the other node, succeeds; and nothing of either is left.
func TestTriedAgain(t *testing.T) {
	testkit.Soak(t, "several agents")
	server, nodes := nomadtest.StartCluster(t, nomadtest.Options{}, nomadtest.Options{}, nomadtest.Options{})
	unchanged(t, server)
	h := openHost(t, hcl(t, settings(server, nomadtest.RawExec)), len(nodes))
	runs := filepath.Join(t.TempDir(), "runs")
	write(t, runs, "")
	j, diags := job.Parse(fmt.Appendf(nil, `
job "again" {
  step "work" {
    attempts = 2
    run {
      path = "sh"
      args = ["-ec", "echo run >> %[1]s; if [ $(wc -l < %[1]s) = 1 ]; then exec sleep 1000; fi; echo done"]
    }
  }
}
`, runs), "again.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	ctx := testkit.Context(t)
	placed := make(chan string, 2)
	again := make(chan string, 1)
	type outcome struct {
		result *host.RunResult
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := h.Run(ctx, host.RunRequest{Job: j, Events: func(e host.Event) {
			switch e.Kind {
			case host.EventPlaced:
				placed <- e.Worker
			case host.EventAgain:
				again <- e.Message
			}
		}})
		done <- outcome{result, err}
	}()
	testkit.Until(t, "the step runs", func() bool { return readFile(t, runs) != "" })
	first := <-placed
	ids := registered(t, server)
	if len(ids) != 1 {
		t.Fatalf("the step has the containers %q", ids)
	}
	reported(t, server, sdk.ContainerID(strings.TrimPrefix(ids[0], "slipway-")))
	i := slices.IndexFunc(nodes, func(a *nomadtest.Agent) bool { return nameOf(a) == first })
	check(t, nodes[i].Reboot(ctx, "data/alloc", "data/client/state.db"))
	o := <-done
	if o.err != nil || len(o.result.Steps) != 1 {
		t.Fatalf("%+v, %v", o.result, o.err)
	}
	if s := o.result.Steps[0]; s.State != host.StepSucceeded || s.Attempts != 2 || s.Worker != nameOf(nodes[1-i]) {
		t.Errorf("the step %s after %d attempts, the last on %s; %v", s.State, s.Attempts, s.Worker, s.Err)
	}
	select {
	case why := <-again:
		for _, words := range []string{"lost", "started without the records", "data_dir"} {
			if !strings.Contains(why, words) {
				t.Errorf("it was tried again because: %s; want it to say %q", why, words)
			}
		}
	default:
		t.Error("nobody was told why it was tried again")
	}
	if ran := readFile(t, runs); ran != "run\nrun\n" {
		t.Errorf("what ran: %q", ran)
	}
	testkit.Until(t, "all is gone from the cluster", func() bool { return len(holdings(ctx, t, server)) == 0 })
}

// openHost opens a host in this process, and waits until so many workers are up.
func openHost(t *testing.T, text string, workers int) *host.Host {
	t.Helper()
	c, diags := config.Parse([]byte(text), "slipway.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	h, err := host.Open(t.Context(), c, host.Options{StateDir: filepath.Join(t.TempDir(), "state")})
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	check(t, h.Ready(testkit.Context(t)))
	testkit.Until(t, "all workers are up", func() bool {
		up := 0
		for _, w := range h.Workers() {
			if w.Up {
				up++
			}
		}
		return up == workers
	})
	return h
}
