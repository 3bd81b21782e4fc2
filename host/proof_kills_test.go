package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/internal/testkit"
)

const killJob = `
job "kill" {
  input "text" {}
  step "work" {
    inputs  = { text = input.text }
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "for i in $(seq 1 20); do echo \"line $i\"; sleep 0.002; done; cat text/in.txt > made/out.txt"]
    }
  }
  output "made" { from = step.work.made }
}
`

// TestPluginKilledAtEveryPoint kills the plugin with SIGKILL at each point around create, start, output, exit, seal and destroy, with a world
// behind it. The host goes on by itself: the step is started once, no byte of its output is lost or doubled, and nothing is left.
func TestPluginKilledAtEveryPoint(t *testing.T) {
	plugin := memoryPlugin(t)
	var want strings.Builder
	for i := range 20 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	for _, at := range []point{
		{"claimed", 1}, {"volume-intent", 1}, {"volume-made", 1}, {"volume-intent", 2}, {"volume-made", 3},
		{"container-intent", 1}, {"container-made", 1}, {"container-ready", 1},
		{"start-intent", 1}, {"start-send", 1}, {"start-sent", 1}, {"started", 1},
		{"output", 1}, {"output", 2}, {"exit", 1}, {"exit-stored", 1},
		{"destroy-intent", 1}, {"destroyed", 1}, {"output-sealed", 1}, {"output-registered", 1},
	} {
		t.Run(fmt.Sprintf("%s-%d", at.name, at.nth), func(t *testing.T) {
			t.Parallel()
			world := startWorld(t, "m", fewLines)
			var h *Host
			var seen, kills atomic.Int64
			opts := Options{Launch: restless(), fault: func(name string) {
				if name != at.name || seen.Add(1) != int64(at.nth) {
					return
				}
				if err := killNow(h); err != nil {
					t.Error(err)
				}
				kills.Add(1)
			}}
			h = openConfig(t, worldConfig(plugin, world.socket, "m"), opts)
			j, diags := job.Parse([]byte(killJob), "kill.hcl")
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			var work *Process
			out := filepath.Join(t.TempDir(), "out")
			res, err := h.Run(t.Context(), RunRequest{ID: "r", Job: j, Inputs: map[string]string{"text": tree(t, map[string]string{"in.txt": "content\n"})},
				Outputs: map[string]string{"made": out}, Events: func(e Event) {
					if e.Kind == EventStarted {
						work = e.Process
					}
				}})
			if err != nil || !res.Succeeded() {
				t.Fatalf("%+v, %v", res, err)
			}
			if kills.Load() != 1 {
				t.Fatal("the point was not reached")
			}
			if got := output(t, work); got != want.String() {
				t.Errorf("output %q", got)
			}
			if text, err := os.ReadFile(filepath.Join(out, "out.txt")); err != nil || string(text) != "content\n" {
				t.Errorf("output file %q, %v", text, err)
			}
			if n := world.starts(); n != 1 {
				t.Errorf("%d starts", n)
			}
			testkit.Until(t, "nothing is left on the worker", func() bool { return len(world.left(t, "m")) == 0 })
		})
	}
}

// callers is how many ask for one owner's container at once.
const callers = 100

// childCallers is a host in a process of its own for whose one container many ask at once, start its one process, and see its end.
func childCallers(ctx context.Context, h *Host) (res childResult) {
	ids, outputs := make([]string, callers), make([]string, callers)
	failed := make([]error, callers)
	var containers [callers]*Container
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			c, err := h.Container(ctx, "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
			if err != nil {
				failed[i] = err
				return
			}
			ids[i], containers[i] = string(c.id), c
			p, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo once"}})
			if err != nil {
				failed[i] = err
				return
			}
			if _, failed[i] = p.Wait(ctx); failed[i] == nil {
				outputs[i], failed[i] = readAll(ctx, p)
			}
		})
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return childResult{Err: err.Error()}
	}
	for i := range callers {
		if ids[i] != ids[0] || outputs[i] != outputs[0] {
			return childResult{Err: fmt.Sprintf("caller %d has container %s and %q, the first %s and %q", i, ids[i], outputs[i], ids[0], outputs[0])}
		}
	}
	res.Output = outputs[0]
	if err := containers[0].Destroy(ctx); err != nil {
		res.Err = err.Error()
	}
	return res
}

// callersPoints are the points that a hundred callers of one container come by; the gate has those at which the worker knows more than the host, or less.
func callersPoints() []point {
	if testing.Short() {
		return []point{{"claimed", 1}, {"container-made", 1}, {"start-sent", 1}, {"destroyed", 1}}
	}
	return []point{
		{"claimed", 1}, {"volume-intent", 1}, {"volume-made", 1}, {"container-intent", 1}, {"container-made", 1}, {"container-ready", 1},
		{"start-intent", 1}, {"start-send", 1}, {"start-sent", 1}, {"started", 1}, {"output", 1}, {"exit", 1}, {"exit-stored", 1},
		{"destroy-intent", 1}, {"destroyed", 1},
	}
}

// wantOnce holds what came of a hundred callers against one container, one start and one output, and a worker with nothing on it.
func wantOnce(t *testing.T, res childResult, world *testWorld) {
	t.Helper()
	if res.Err != "" || res.Output != "once\n" {
		t.Fatalf("the callers have %+v", res)
	}
	if n := world.starts(); n != 1 {
		t.Errorf("%d starts", n)
	}
	testkit.Until(t, "nothing is left on the worker", func() bool { return len(world.left(t, "m")) == 0 })
}

// TestCallersAcrossKills has a hundred callers ask for one owner's container, in a host that is killed with SIGKILL at a point of it, and
// again in the next: there is one container that anything runs in, one start, one output for all, and nothing is left.
func TestCallersAcrossKills(t *testing.T) {
	plugin := memoryPlugin(t)
	for _, at := range callersPoints() {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			world := startWorld(t, "m", fewLines)
			spec := childSpec{Plugin: plugin, Socket: world.socket, State: t.TempDir(), Callers: true, Point: at.name, Nth: at.nth}
			if _, killed := startHost(t, spec); !killed {
				t.Fatal("the point was not reached")
			}
			spec.Point = ""
			res, _ := startHost(t, spec)
			wantOnce(t, res, world)
		})
	}
}

// TestCallersAcrossPluginKills is the same with the plugin killed under the callers of a host that goes on.
func TestCallersAcrossPluginKills(t *testing.T) {
	plugin := memoryPlugin(t)
	for _, at := range callersPoints() {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			world := startWorld(t, "m", fewLines)
			var h *Host
			var seen atomic.Int64
			h = openConfig(t, worldConfig(plugin, world.socket, "m"), Options{Launch: restless(), fault: func(name string) {
				if name == at.name && seen.Add(1) == int64(at.nth) {
					if err := killNow(h); err != nil {
						t.Error(err)
					}
				}
			}})
			res := childCallers(testkit.Context(t), h)
			if seen.Load() < int64(at.nth) {
				t.Fatal("the point was not reached")
			}
			wantOnce(t, res, world)
		})
	}
}

// killNow kills the process of a host's plugin, which must be there: no process has the number 0, and a signal to that goes to whoever sends it.
func killNow(h *Host) error {
	pid := h.plugins[0].proc.State().PID
	if pid == 0 {
		return errors.New("the plugin is not there to be killed")
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}
