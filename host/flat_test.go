//go:build linux

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/internal/testkit"
)

// use is what a host and its plugin take of the machine.
type use struct {
	goroutines int
	hostFiles  int   // open in this process
	files      int   // open in the plugin
	heap       int64 // bytes of this process's heap that are reachable
	resident   int64 // bytes of the plugin's that are in memory
	state      int64 // bytes of the state directory
	spooled    int   // files with output of processes
}

// TestStepsLeaveNothing runs steps, most of them with what another one made, forgets them, and runs many more under the same host and plugin: what both take is then what they took before.
// It does not run in parallel, since it counts what the whole process has.
func TestStepsLeaveNothing(t *testing.T) {
	clk := newTestClock()
	cfg := testConfig("m")
	cfg.Plugins[0].Command = memoryPlugin(t)
	h := openConfig(t, cfg, Options{clock: clk.clock()})
	few := testkit.Times(10, 1000) // jobs of two steps
	runSteps(t, h, few)
	before := forgotten(t, h, clk)
	runSteps(t, h, testkit.Times(6*few, 49*few))
	after := forgotten(t, h, clk)
	t.Logf("%+v, and then %+v", before, after)

	// How many connections the plugin's side has idle and how far the runtime has grown is not the same every time; a leak of one a step is 120 or more.
	if after.goroutines > before.goroutines+16 || after.hostFiles > before.hostFiles+8 || after.files > before.files+8 {
		t.Errorf("there were %d goroutines, %d files open in the host and %d in the plugin, and now %d, %d and %d",
			before.goroutines, before.hostFiles, before.files, after.goroutines, after.hostFiles, after.files)
	}
	if after.spooled > 0 {
		t.Errorf("%d files of output are left", after.spooled)
	}
	const slack = 1 << 20
	if after.state > before.state+before.state/10+slack {
		t.Errorf("the state directory had %d bytes, and has %d", before.state, after.state)
	}
	if after.heap > before.heap+2*slack {
		t.Errorf("the host's heap had %d bytes, and has %d", before.heap, after.heap)
	}
	if after.resident > before.resident+32*slack {
		t.Errorf("the plugin had %d bytes in memory, and has %d", before.resident, after.resident)
	}
}

// runSteps runs two steps for each n, eight jobs at once.
func runSteps(t *testing.T, h *Host, n int) {
	t.Helper()
	ctx := testkit.Context(t) // one for all: each is kept until the test ends
	var g errgroup.Group
	g.SetLimit(8)
	for range n {
		g.Go(func() error {
			res, err := h.Run(ctx, RunRequest{Job: parseJob(t, `
job "j" {
  step "a" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made; echo made > o/f"]
    }
  }
  step "b" {
    inputs = { in = step.a.o }
    run {
      path = "cat"
      args = ["in/f"]
    }
  }
}`)})
			if err == nil && !res.Succeeded() {
				err = errors.New(states(res))
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// forgotten lets the time for records pass, and gives what is taken when all that is owed is paid.
func forgotten(t *testing.T, h *Host, clk *testClock) (u use) {
	t.Helper()
	clk.pass(8 * 24 * time.Hour)
	if left := h.Tidy(testkit.Context(t)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	u.state, _ = filesIn(t, h.StateDir())
	_, u.spooled = filesIn(t, filepath.Join(h.StateDir(), "spool"))
	var m runtime.MemStats
	for range 2 { // what has a finalizer goes with the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	u.heap, u.goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	pid := h.plugins[0].proc.State().PID
	u.hostFiles, u.files = openFiles(t, os.Getpid()), openFiles(t, pid)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var total, pages int64
	if err == nil {
		_, err = fmt.Sscan(string(text), &total, &pages)
	}
	if err != nil {
		t.Fatal(err)
	}
	u.resident = pages * int64(os.Getpagesize())
	return u
}

// openFiles is how many descriptors a process has.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
