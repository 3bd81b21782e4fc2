//go:build linux

package ongarden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// point is a place in the host, by the name that it is marked with there, and the time that it is come by.
type point struct {
	name string
	nth  int
}

// points are those of the host's own proof on memory, around create, stream, clone, start, output, exit, seal and destroy. The gate has two
// at which the servers know more than the host.
func points() []point {
	if testing.Short() {
		return []point{{"container-made", 1}, {"start-sent", 1}}
	}
	return []point{
		{"claimed", 1}, {"volume-intent", 1}, {"volume-made", 1}, {"volume-intent", 2}, {"volume-made", 2}, {"volume-intent", 3}, {"volume-made", 3},
		{"container-intent", 1}, {"container-made", 1}, {"container-ready", 1},
		{"start-intent", 1}, {"start-send", 1}, {"start-sent", 1}, {"started", 1},
		{"output", 1}, {"output", 2}, {"exit", 1}, {"exit-stored", 1},
		{"destroy-intent", 1}, {"destroyed", 1}, {"output-sealed", 1}, {"output-registered", 1}, {"step-kept", 1},
		{"claimed", 2}, {"volume-intent", 4}, {"volume-made", 4}, {"container-made", 2}, {"start-send", 2}, {"exit-stored", 2}, {"destroyed", 2},
		{"output-placing", 1}, {"output-placed", 1},
	}
}

// pointsJob has each run of a step make an id that no other has, which is in its output as well.
const pointsJob = `
job "points" {
  input "text" {}
  step "work" {
    inputs  = { text = input.text }
    outputs = ["made"]
    run {
      path = "sh"
      args = ["-ec", "read id < /proc/sys/kernel/random/uuid; echo $id > made/began; echo $id; for i in $(seq 1 200); do echo line $i; usleep 2000; done; cat text/in.txt > made/out.txt; echo done"]
    }
  }
  step "after" {
    inputs  = { made = step.work.made }
    outputs = ["copy"]
    run {
      path = "sh"
      args = ["-ec", "cp made/out.txt made/began copy"]
    }
  }
  output "copy" { from = step.after.copy }
}
`

// hostSpec is what the host's tests take as a host in a process of its own: see childSpec there.
type hostSpec struct {
	Config, State, Run, Input, Output, Job, Point string
	Nth                                           int
}

// hostResult is what such a host says at its end.
type hostResult struct {
	Steps       map[string]string
	Output, Err string
}

// startChild starts such a host, and its plugin with it.
func startChild(t *testing.T, spec hostSpec) (cmd *exec.Cmd, wait func() (res hostResult, killed bool)) {
	t.Helper()
	text, err := json.Marshal(spec)
	check(t, err)
	cmd = exec.CommandContext(testkit.Context(t), hostTests(t))
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_HOST="+string(text))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 10*time.Second
	check(t, cmd.Start())
	return cmd, func() (res hostResult, killed bool) {
		t.Helper()
		err := cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
			return res, true
		}
		if err != nil {
			t.Fatalf("a host in a process of its own: %v\n%s", err, errs.String())
		}
		if err := json.Unmarshal([]byte(out.String()), &res); err != nil {
			t.Fatalf("%v in %q", err, out.String())
		}
		return res, false
	}
}

var buildHostTests = sync.OnceValue(func() error {
	return testkit.BuildTests(program("host.test"), "github.com/slipway-run/slipway/host")
})

// hostTests is the program of the host's tests: only there a host can be told where to die.
func hostTests(t *testing.T) string {
	t.Helper()
	check(t, buildHostTests())
	return program("host.test")
}

// TestHostKilledAtEveryPoint kills a host with SIGKILL, and its plugin with it, at each point around create, stream, clone, start, output, exit,
// seal and destroy; in the gate at a few. A second host on the same state directory brings the same run to its end: each step ran once, no byte of its
// output is lost or doubled, and nothing is left on the servers.
func TestHostKilledAtEveryPoint(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	config := gardenHCL(worker{name: "here", garden: settings(t, servers)})
	for _, at := range points() {
		t.Run(fmt.Sprintf("%s-%d", at.name, at.nth), func(t *testing.T) {
			x := newPoints(t, servers, config, "content\n")
			x.spec.Point, x.spec.Nth = at.name, at.nth
			_, wait := startChild(t, x.spec)
			if _, killed := wait(); !killed {
				t.Fatal("the point was not reached")
			}
			x.second(t)
		})
	}
}

// TestHostKilledInStream kills it in the midst of an archive on its way into a volume, half of which is there.
func TestHostKilledInStream(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	proxy := gardentest.NewProxy(t, servers.Baggageclaim)
	s := settings(t, servers)
	s.Baggageclaim = proxy.Address()
	const size = 4 << 20
	x := newPoints(t, servers, gardenHCL(worker{name: "here", garden: s}), readFile(t, randomDir(t, size), "random"))
	// The shim's program comes first, once. It is there before anything is counted.
	h := openHost(t, gardenConfig(t, worker{name: "here", garden: s}))
	check(t, step(testkit.Context(t), h, "first", host.ContainerRequest{}, host.ProcessRequest{Path: "true"}))
	half := proxy.FreezeAfter(size / 2)
	first, wait := startChild(t, x.spec)
	select {
	case <-half:
	case <-testkit.Context(t).Done():
		t.Fatal("the stream does not come so far")
	}
	check(t, first.Process.Kill())
	if _, killed := wait(); !killed {
		t.Fatal("the first host has ended by itself")
	}
	proxy.Cut()
	proxy.Thaw()
	x.second(t)
}

// pointsRun is a run that is begun by one host and ended by another.
type pointsRun struct {
	servers *gardentest.Servers
	spec    hostSpec
	input   string
	began   func() []string // ids of all runs of the step "work" so far
}

func newPoints(t *testing.T, servers *gardentest.Servers, config, input string) *pointsRun {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "input"), 0o755))
	write(t, filepath.Join(dir, "slipway.hcl"), config)
	write(t, filepath.Join(dir, "input", "in.txt"), input)
	return &pointsRun{servers: servers, input: input, began: watchBegan(t, servers), spec: hostSpec{
		Config: filepath.Join(dir, "slipway.hcl"), State: filepath.Join(dir, "state"), Run: "points", Job: pointsJob,
		Input: filepath.Join(dir, "input"), Output: filepath.Join(dir, "out"),
	}}
}

// second has another host bring the run to its end, and looks at what came of it.
func (x *pointsRun) second(t *testing.T) {
	t.Helper()
	x.spec.Point = ""
	_, wait := startChild(t, x.spec)
	res, _ := wait()
	if res.Err != "" || res.Steps["work"] != "succeeded" || res.Steps["after"] != "succeeded" {
		t.Fatalf("the second host: %+v", res)
	}
	id := strings.TrimSpace(readFile(t, x.spec.Output, "began"))
	var want strings.Builder
	fmt.Fprintln(&want, id)
	for i := range 200 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	want.WriteString("done\n")
	if res.Output != want.String() {
		t.Errorf("output of %d bytes, want %d: %.200q", len(res.Output), want.Len(), res.Output)
	}
	if readFile(t, x.spec.Output, "out.txt") != x.input {
		t.Error("the output file is not what the input was")
	}
	if ran := x.began(); len(ran) != 1 || ran[0] != id {
		t.Errorf("the step ran as %q, and %s is what came of it", ran, id)
	}
	nothingLeft(t, x.servers)
}

// watchBegan looks for the ids that runs of the step leave on volumes for as long as these are there, and gives all there have been.
func watchBegan(t *testing.T, servers *gardentest.Servers) (ids func() []string) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(map[string]bool)
	var mu sync.Mutex
	var watching sync.WaitGroup
	t.Cleanup(func() { cancel(); watching.Wait() })
	look := func() {
		files, _ := filepath.Glob(filepath.Join(servers.VolumesDir(), "live", "*", "volume", "began"))
		for _, f := range files {
			text, _ := os.ReadFile(f) // it may go at any moment
			if id, whole := strings.CutSuffix(string(text), "\n"); whole {
				mu.Lock()
				seen[id] = true
				mu.Unlock()
			}
		}
	}
	watching.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-tick.C:
				look()
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	return func() (ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for id := range seen {
			ids = append(ids, id)
		}
		return ids
	}
}
