//go:build linux

package ongarden

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/hostproof"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

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
	for _, at := range hostproof.Points() {
		t.Run(at.String(), func(t *testing.T) {
			x := newPoints(t, servers, config, "content\n")
			x.spec.Point, x.spec.Nth = at.Name, at.Nth
			if _, killed := hostproof.Start(t, hostTests(t), x.spec).Wait(t); !killed {
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
	first := hostproof.Start(t, hostTests(t), x.spec)
	select {
	case <-half:
	case <-testkit.Context(t).Done():
		t.Fatal("the stream does not come so far")
	}
	check(t, first.Kill())
	if _, killed := first.Wait(t); !killed {
		t.Fatal("the first host has ended by itself")
	}
	proxy.Cut()
	proxy.Thaw()
	x.second(t)
}

// pointsRun is a run that is begun by one host and ended by another.
type pointsRun struct {
	servers *gardentest.Servers
	spec    hostproof.Spec
	input   string
	began   func() []string // ids of all runs of the step "work" so far
}

func newPoints(t *testing.T, servers *gardentest.Servers, config, input string) *pointsRun {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "input"), 0o755))
	write(t, filepath.Join(dir, "slipway.hcl"), config)
	write(t, filepath.Join(dir, "input", "in.txt"), input)
	return &pointsRun{servers: servers, input: input, began: watchBegan(t, servers), spec: hostproof.Spec{
		Config: filepath.Join(dir, "slipway.hcl"), State: filepath.Join(dir, "state"), Run: "points", Job: pointsJob,
		Input: filepath.Join(dir, "input"), Output: filepath.Join(dir, "out"),
	}}
}

// second has another host bring the run to its end, and looks at what came of it.
func (x *pointsRun) second(t *testing.T) {
	t.Helper()
	x.spec.Point = ""
	res, _ := hostproof.Start(t, hostTests(t), x.spec).Wait(t)
	if res.Err != "" || res.Steps["work"] != "succeeded" || res.Steps["after"] != "succeeded" {
		t.Fatalf("the second host: %+v", res)
	}
	id := strings.TrimSpace(readFile(t, x.spec.Output, "began"))
	if want := hostproof.Lines(id + "\n"); res.Output != want {
		t.Errorf("output of %d bytes, want %d: %.200q", len(res.Output), len(want), res.Output)
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
