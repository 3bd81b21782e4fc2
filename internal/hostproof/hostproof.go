// Package hostproof runs a host in a process of its own, which a test has killed, or kills, at a point: what the proofs in package host, on memory, and those of
// plugins on their real servers share. Only the program of host's own tests can be told where to die, so that is what is run; it must be built before
// ([testkit.BuildTests]).
//
// What knows a plugin or its servers does not belong here.
package hostproof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// Env names the variable that makes the program of host's tests such a host: it holds a Spec, as JSON.
const Env = "SLIPWAY_TEST_HOST"

// Spec is what such a host shall do: run a job, and die by SIGKILL at a point.
type Spec struct {
	Plugin, Socket, State, Run, Input, Output string
	Config                                    string // the file of one; empty: worker "m" is in the memory of the world at Socket
	Job                                       string // empty: that of host's own proof
	Point                                     string // empty: none
	Nth                                       int    // the time that it comes by the point, from 1 on
	Callers                                   bool   // no job, but many that ask for one container
}

// Result is what such a host says at its end.
type Result struct {
	Steps  map[string]string
	Output string // of the step "work"
	Err    string
}

// Point is a place in the host, by the name that it is marked with there, and the time that it is come by.
type Point struct {
	Name string
	Nth  int
}

// String is the name of the point's subtest.
func (p Point) String() string { return fmt.Sprintf("%s-%d", p.Name, p.Nth) }

// Points are those at which a host is killed on real servers: host's own, around create, stream, clone, start, output, exit, seal and destroy, of a job of two steps
// whose first has an input, and of which the second reads what the first made. The gate has two at which the servers know more than the host.
func Points() []Point {
	if testing.Short() {
		return []Point{{"container-made", 1}, {"start-sent", 1}}
	}
	return []Point{
		{"claimed", 1}, {"volume-intent", 1}, {"volume-made", 1}, {"volume-intent", 2}, {"volume-made", 2}, {"volume-intent", 3}, {"volume-made", 3},
		{"container-intent", 1}, {"container-made", 1}, {"container-ready", 1},
		{"start-intent", 1}, {"start-send", 1}, {"start-sent", 1}, {"started", 1},
		{"output", 1}, {"output", 2}, {"exit", 1}, {"exit-stored", 1},
		{"destroy-intent", 1}, {"destroyed", 1}, {"output-sealed", 1}, {"output-registered", 1}, {"step-kept", 1},
		{"claimed", 2}, {"volume-intent", 4}, {"volume-made", 4}, {"container-made", 2}, {"start-send", 2}, {"exit-stored", 2}, {"destroyed", 2},
		{"output-placing", 1}, {"output-placed", 1},
	}
}

// Lines is the output of the step "work" in the jobs of these proofs: what it began with, 200 lines that are numbered, and "done".
func Lines(began string) string {
	var want strings.Builder
	want.WriteString(began)
	for i := range 200 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	want.WriteString("done\n")
	return want.String()
}

// Host is such a host while it runs.
type Host struct {
	ctx       context.Context // of the test, whose end kills it
	cmd       *exec.Cmd
	out, errs strings.Builder
}

// Start starts one. It ends with the test at the latest; its plugins end with it.
func Start(t testing.TB, program string, spec Spec) *Host {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{ctx: testkit.Context(t)}
	h.cmd = exec.CommandContext(h.ctx, program)
	h.cmd.Env = append(os.Environ(), Env+"="+string(text))
	h.cmd.Stdout, h.cmd.Stderr, h.cmd.WaitDelay = &h.out, &h.errs, 10*time.Second
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return h
}

// Kill kills it, wherever it is.
func (h *Host) Kill() error { return h.cmd.Process.Kill() }

// Wait waits for its end, and tells whether it was killed, at its point or by Kill. One that had no time left, or that failed, fails the test.
func (h *Host) Wait(t testing.TB) (res Result, killed bool) {
	t.Helper()
	err := h.cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case h.ctx.Err() == nil && ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return res, true
	case err != nil:
		t.Fatalf("a host in a process of its own: %v\n%s", err, h.errs.String())
	}
	if err := json.Unmarshal([]byte(h.out.String()), &res); err != nil {
		t.Fatalf("%v in %q", err, h.out.String())
	}
	return res, false
}
