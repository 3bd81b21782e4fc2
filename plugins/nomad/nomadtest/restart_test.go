//go:build linux

package nomadtest

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// pidOf returns the process id that this machine has for a task: the exec driver's has another inside.
func pidOf(t *testing.T, a *Agent, id string) string {
	t.Helper()
	s := &site{dir: a.dir, allocs: []string{id}}
	pids := s.await(t, func(pids []int) bool { return slices.ContainsFunc(pids, sleeping) })
	return proc(pids[slices.IndexFunc(pids, sleeping)])
}

func sleeping(pid int) bool { return strings.HasPrefix(cmdline(pid), "/bin/sleep\x001000\x00") }

// await waits until its processes are as wanted: Nomad calls a task up before its program has come to anything.
func (s *site) await(t *testing.T, wanted func(pids []int) bool) []int {
	t.Helper()
	var pids []int
	defer func() {
		for _, pid := range pids {
			if t.Failed() {
				t.Logf("there is the process %q", cmdline(pid))
			}
		}
	}()
	testkit.Until(t, "its processes are as wanted", func() bool {
		var err error
		if pids, err = s.processes(); err != nil {
			t.Fatal(err)
		}
		return wanted(pids)
	})
	return pids
}

// TestRestart kills and stops an agent: its tasks run on meanwhile, and afterwards they are the same ones in the same allocations.
func TestRestart(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	ctx := testkit.Context(t)
	a := Start(t, Options{})
	drivers := []string{RawExec}
	if a.HasExec() {
		drivers = append(drivers, Exec)
	}
	pids, starts, ids := map[string]string{}, map[string]string{}, map[string]string{}
	for _, d := range drivers {
		alloc, err := a.Run(ctx, sleeper(d))
		if err != nil {
			t.Fatal(err)
		}
		ids[d], pids[d] = alloc.ID, pidOf(t, a, alloc.ID)
		starts[d] = started(t, pids[d])
	}
	for name, end := range map[string]func() error{
		"kill": func() error { a.Kill(); return nil },
		"stop": func() error { return a.Stop(ctx) },
	} {
		agent := a.PID()
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if alive(proc(agent)) {
			t.Errorf("%s: the agent, pid %d, is still there", name, agent)
		}
		for _, d := range drivers {
			if !alive(pids[d]) {
				t.Fatalf("%s: the task of %s went with the agent", name, d)
			}
		}
		if _, err := a.Client().Agent().Self(); err == nil {
			t.Errorf("%s: somebody answers in the agent's place", name)
		}
		if err := a.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if a.PID() == agent {
			t.Errorf("%s: the agent has its old pid", name)
		}
		for _, d := range drivers {
			alloc, _, err := a.Client().Allocations().Info(ids[d], nil)
			if err != nil {
				t.Fatal(err)
			}
			if alloc.ClientStatus != "running" || started(t, pids[d]) != starts[d] {
				t.Errorf("%s: %s: allocation is %s; its process %s", name, d, alloc.ClientStatus, started(t, pids[d]))
			}
			if d == Exec && !unified() {
				continue // see Agent.Kill
			}
			var out bytes.Buffer
			code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/sh", "-c", "echo back"}, nil, &out, nil)
			if err != nil || code != 0 || out.String() != "back\n" {
				t.Errorf("%s: %s: exec: code %d, error %v, output %q", name, d, code, err, &out)
			}
		}
	}
}

// TestRestartRunning restarts an agent that runs.
func TestRestartRunning(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	a := Start(t, Options{})
	before, node := a.PID(), a.NodeID()
	if err := a.Restart(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if a.PID() == before || alive(proc(before)) {
		t.Errorf("the agent, pid %d, was not replaced", before)
	}
	if a.NodeID() != node {
		t.Errorf("node %s has become %s", node, a.NodeID())
	}
}

// TestStopGivesUp ends the wait for an agent that does not stop.
func TestStopGivesUp(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	a := Start(t, Options{Dev: true})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	freeze(t, a)
	if err := a.Stop(ctx); err == nil {
		t.Error("Stop of a frozen agent returned nil")
	}
	a.Kill()
	if err := a.Stop(ctx); err != nil {
		t.Errorf("Stop of an agent that is gone: %v", err)
	}
}

// unified tells whether this machine has control groups of version 2 only.
func unified() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

func alive(proc string) bool {
	_, err := os.Readlink(proc + "/exe")
	return err == nil
}
