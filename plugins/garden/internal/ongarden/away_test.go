//go:build linux

package ongarden

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestBegunWhileAway begins a host while servers of its worker are away. It comes up and says which server is away. With only Garden away, who wants a
// container is kept waiting, with that reason; a worker that has never been there as a whole is waited for by nobody, and its reason comes at once. When the
// servers are back there are containers again, without anybody's doing.
func TestBegunWhileAway(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	s := settings(t, servers)
	for name, x := range map[string]away{
		"garden":       {servers: servers, garden: true},
		"baggageclaim": {servers: servers, baggageclaim: true},
		"both":         {servers: servers, garden: true, baggageclaim: true},
	} {
		t.Run(name, func(t *testing.T) {
			x.kill()
			h := beginHost(t, gardenConfig(t, worker{name: "here", garden: s}))
			var r host.WorkerReport
			testkit.Until(t, "the worker is as its servers are", func() bool { // a first status that took too long says nothing of them
				r = h.Workers()[0]
				return r.Up != x.baggageclaim && (r.Up || !strings.Contains(r.Why, "has not told its status"))
			})
			x.wantNamed(t, "the worker", r.Why+r.Status.Reason)
			why, made := x.ask(t, h)
			x.wantNamed(t, "who wants a container", why)
			x.start(t)
			if x.baggageclaim {
				testkit.Until(t, "the worker is up", func() bool { return h.Workers()[0].Up })
				_, made = x.ask(t, h)
			}
			check(t, <-made)
			nothingLeft(t, servers)
		})
	}
	for name, x := range map[string]away{"garden, in a step": {servers: servers, garden: true}, "both, in a step": {servers: servers, garden: true, baggageclaim: true}} {
		t.Run(name, func(t *testing.T) { testStepWhileAway(t, x, s) })
	}
}

// away says which of a worker's servers are away.
type away struct {
	servers              *gardentest.Servers
	garden, baggageclaim bool
}

func (x away) kill() {
	if x.garden {
		x.servers.KillGarden()
	}
	if x.baggageclaim {
		x.servers.KillBaggageclaim()
	}
}

func (x away) start(t *testing.T) {
	t.Helper()
	if x.garden {
		x.servers.StartGarden(t)
	}
	if x.baggageclaim {
		x.servers.StartBaggageclaim(t)
	}
}

// wantNamed looks for the addresses of those that are away, and of no other, in what somebody is told.
func (x away) wantNamed(t *testing.T, who, said string) {
	t.Helper()
	if strings.Contains(said, x.servers.Garden) != x.garden || strings.Contains(said, x.servers.Baggageclaim) != x.baggageclaim {
		t.Errorf("%s: %q; away are %+v", who, said, x)
	}
}

// ask runs a step, and gives the reason why it waits or fails, empty if it does neither; made tells what became of it.
func (x away) ask(t *testing.T, h *host.Host) (why string, made chan error) {
	t.Helper()
	waits, made := make(chan string, 1), make(chan error, 1)
	go func() {
		made <- step(testkit.Context(t), h, "owner", host.ContainerRequest{Outputs: []host.Output{{Name: "out", Path: "out"}}, Observe: func(e host.Event) {
			if e.Kind == host.EventWaiting && e.Message != "" {
				select {
				case waits <- e.Message:
				default: // one is enough
				}
			}
		}}, host.ProcessRequest{Path: "true"})
	}()
	select {
	case why = <-waits:
	case err := <-made:
		made <- err
		if err != nil {
			why = err.Error()
		}
	}
	return why, made
}

// testStepWhileAway kills slipway in the midst of a step, then servers, and begins a host on what it left before these are back.
func testStepWhileAway(t *testing.T, x away, s garden.Config) {
	servers, dir, ctx := x.servers, t.TempDir(), testkit.Context(t)
	config, job, state := filepath.Join(dir, "slipway.hcl"), filepath.Join(dir, "job.hcl"), filepath.Join(dir, "state")
	write(t, config, gardenHCL(worker{name: "here", garden: s}))
	write(t, job, `
job "away" {
  step "count" {
    outputs = ["out"]
    run {
      path = "sh"
      args = ["-ec", "echo begun >> out/begun; echo first; until [ -e out/go ]; do usleep 10000; done; cat out/begun; echo last"]
    }
  }
}
`)
	first := startSlipway(t, "-c", config, "run", job, "--state", state, "--id", "a")
	first.await("count | first\n")
	check(t, first.cmd.Process.Kill())
	first.wait(-1)
	begun, err := filepath.Glob(filepath.Join(servers.VolumesDir(), "live", "*", "volume", "begun"))
	if err != nil || len(begun) != 1 {
		t.Fatalf("the step's output is at %q, %v", begun, err)
	}
	x.kill()

	h := beginHostOn(t, loadConfig(t, config), state)
	waits, ended := make(chan string, 1000), make(chan error, 1)
	go func() {
		res, err := h.Run(ctx, host.RunRequest{ID: "a", Job: loadJob(t, job), Events: func(e host.Event) {
			if e.Kind == host.EventWaiting {
				waits <- e.Message
			}
		}})
		if err == nil && !res.Succeeded() {
			err = fmt.Errorf("%+v", res.Steps)
		}
		ended <- err
	}()
	for named := false; !named; {
		select {
		case why := <-waits:
			named = strings.Contains(why, servers.Garden) == x.garden && strings.Contains(why, servers.Baggageclaim) == x.baggageclaim
		case err := <-ended:
			t.Fatalf("it has ended, and nobody was told who is away: %v", err)
		case <-ctx.Done():
			t.Fatal("nobody is told who is away")
		}
	}
	x.start(t)
	write(t, filepath.Join(filepath.Dir(begun[0]), "go"), "")
	check(t, <-ended)
	check(t, h.Close(ctx))
	if got := startSlipway(t, "logs", "a", "--state", state).wait(0); got != "count | first\ncount | begun\ncount | last\n" {
		t.Errorf("its log is %q", got)
	}
	nothingLeft(t, servers)
}
