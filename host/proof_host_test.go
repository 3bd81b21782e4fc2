package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/internal/hostproof"
)

type (
	childSpec   hostproof.Spec
	childResult = hostproof.Result
)

// point is a place in the host where the child dies. Each is somewhere around a change on the worker.
type point struct {
	name string
	nth  int
}

// points are those around create, start, output, exit, seal and destroy, in the order of a run.
var points = []point{
	{"claimed", 1}, {"volume-intent", 1}, {"volume-made", 1}, {"volume-intent", 2}, {"volume-made", 2}, {"volume-intent", 3}, {"volume-made", 3},
	{"container-intent", 1}, {"container-made", 1}, {"container-ready", 1},
	{"start-intent", 1}, {"start-send", 1}, {"start-sent", 1}, {"started", 1},
	{"output", 1}, {"output", 2}, {"output", 7}, {"exit", 1}, {"exit-stored", 1},
	{"destroy-intent", 1}, {"destroyed", 1}, {"output-sealed", 1}, {"output-registered", 1}, {"step-ended", 1}, {"step-kept", 1},
	{"claimed", 2}, {"container-made", 2}, {"start-send", 2}, {"exit-stored", 2}, {"destroyed", 2},
	{"output-placing", 1}, {"output-placed", 1},
}

// fewLines is what a process may have written before its host has stored it: output comes in many batches, however slow this machine is.
const fewLines = 64

const proofJob = `
job "proof" {
  input "text" {}
  step "work" {
    inputs  = { text = input.text }
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "for i in $(seq 1 200); do echo \"line $i\"; sleep 0.002; done; cat text/in.txt > made/out.txt; echo done"]
    }
  }
  step "after" {
    inputs  = { made = step.work.made }
    outputs = ["copy"]
    run {
      path = "sh"
      args = ["-ec", "cp made/out.txt copy/out.txt"]
    }
  }
  output "copy" { from = step.after.copy }
}
`

// runChild is the main of the host in a process of its own.
func runChild(text string) int {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	res := childRun(spec)
	if err := json.NewEncoder(os.Stdout).Encode(res); err != nil {
		return 2
	}
	return 0
}

func childRun(spec childSpec) (res childResult) {
	ctx := context.Background() // the test that waits for its end kills it
	j, diags := job.Parse([]byte(cmp.Or(spec.Job, proofJob)), "proof.hcl")
	if diags.HasErrors() {
		return childResult{Err: diags.Error()}
	}
	var seen atomic.Int64
	opts := Options{StateDir: spec.State, Launch: restless(), fault: func(at string) {
		if at != spec.Point {
			return
		}
		if seen.Add(1) == int64(spec.Nth) {
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err == nil {
				select {} // until it takes effect
			}
		}
	}}
	cfg, diags := spec.config()
	if diags.HasErrors() {
		return childResult{Err: diags.Error()}
	}
	h, err := Open(ctx, cfg, opts)
	if err != nil {
		return childResult{Err: err.Error()}
	}
	defer func() {
		if err := h.Close(ctx); err != nil {
			res.Err += err.Error()
		}
	}()
	if err := h.Ready(ctx); err != nil {
		return childResult{Err: err.Error()}
	}
	if spec.Callers {
		return childCallers(ctx, h)
	}
	var work *Process
	result, err := h.Run(ctx, RunRequest{ID: spec.Run, Job: j, Inputs: map[string]string{"text": spec.Input},
		Outputs: map[string]string{"copy": spec.Output}, Events: func(e Event) {
			if e.Kind == EventStarted && e.Step == "work" {
				work = e.Process
			}
		}})
	if err != nil {
		return childResult{Err: err.Error()}
	}
	res.Steps = make(map[string]string)
	for _, s := range result.Steps {
		res.Steps[s.Step] = s.Summary()
	}
	if work != nil {
		res.Output, err = readAll(ctx, work)
		if err != nil {
			res.Err = err.Error()
		}
	}
	return res
}

func (s childSpec) config() (*config.Config, hcl.Diagnostics) {
	if s.Config != "" {
		return config.Load(s.Config)
	}
	return worldConfig(s.Plugin, s.Socket, "m"), nil
}

// startHost runs a host in a process of its own to its end, and tells whether it was killed.
func startHost(t *testing.T, spec childSpec) (childResult, bool) {
	t.Helper()
	self, err := buildSelf()
	if err != nil {
		t.Fatal(err)
	}
	return hostproof.Start(t, self, hostproof.Spec(spec)).Wait(t)
}

// TestHostKilledAtEveryPoint kills a host with SIGKILL at each point around create, start, output, exit, seal and destroy, with a world
// behind it. A second host on the same state directory brings the same run to its end: every step ran once, no byte of its
// output is lost or doubled, its output is right, and nothing is left on the worker.
func TestHostKilledAtEveryPoint(t *testing.T) {
	plugin := memoryPlugin(t)
	input := t.TempDir()
	if err := os.WriteFile(filepath.Join(input, "in.txt"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := hostproof.Lines("")
	for _, at := range points {
		t.Run(fmt.Sprintf("%s-%d", at.name, at.nth), func(t *testing.T) {
			t.Parallel()
			world := startWorld(t, "m", fewLines)
			spec := childSpec{Plugin: plugin, Socket: world.socket, State: t.TempDir(), Run: "proof", Input: input,
				Output: filepath.Join(t.TempDir(), "out"), Point: at.name, Nth: at.nth}
			if _, killed := startHost(t, spec); !killed {
				t.Fatal("the point was not reached")
			}
			startedBefore := world.starts()
			spec.Point = ""
			res, _ := startHost(t, spec)
			if res.Err != "" || res.Steps["work"] != "succeeded" || res.Steps["after"] != "succeeded" {
				t.Fatalf("the second host: %+v", res)
			}
			if n := world.starts(); n != 2 {
				t.Errorf("%d starts of 2 steps, %d of them by the first host", n, startedBefore)
			}
			if res.Output != want {
				t.Errorf("output of %d bytes, want %d: %.200q", len(res.Output), len(want), res.Output)
			}
			got, err := os.ReadFile(filepath.Join(spec.Output, "out.txt"))
			if err != nil || string(got) != "content\n" {
				t.Errorf("output file %q, %v", got, err)
			}
			if left := world.left(t, "m"); len(left) > 0 {
				t.Errorf("left on the worker: %q", left)
			}
		})
	}
}
