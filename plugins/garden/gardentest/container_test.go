//go:build linux

package gardentest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/internal/testkit"
)

func (w *world) testMounts(t *testing.T) {
	ro, rw := w.Volume(t, "ro", nil, false), w.Volume(t, "rw", nil, false)
	if err := os.WriteFile(filepath.Join(ro, "file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := w.create(t, "mounts", func(s *garden.ContainerSpec) {
		s.BindMounts = []garden.BindMount{
			{SrcPath: ro, DstPath: "/deep/ro", Mode: garden.BindMountModeRO},
			{SrcPath: rw, DstPath: "/deep/rw", Mode: garden.BindMountModeRW},
		}
	})
	got := sh(t, c, "cat /deep/ro/file; (echo x >/deep/ro/new) 2>/dev/null || echo ' read-only'; echo new >/deep/rw/new; stat -c %u /deep/rw /deep/rw/new")
	if got != "text read-only\n0\n0\n" {
		t.Errorf("in the container: %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(rw, "new")); err != nil || string(text) != "new\n" {
		t.Errorf("outside: %q, %v", text, err)
	}
	if got := w.Volumes(t); !slices.Equal(got, []string{"image", "ro", "rw"}) {
		t.Errorf("volumes %q", got)
	}
}

func (w *world) testLimits(t *testing.T) {
	c := w.create(t, "limits", func(s *garden.ContainerSpec) {
		s.Limits = garden.Limits{Memory: garden.MemoryLimits{LimitInBytes: 32 << 20}, Pid: garden.PidLimits{Max: 7}, CPU: garden.CPULimits{Weight: 512}}
	})
	// Control groups of version 1 have a directory for each kind; those of version 2 turn shares into a weight of another scale.
	got := sh(t, c, "cd /sys/fs/cgroup; if [ -e memory ]; then cat memory/memory.limit_in_bytes pids/pids.max cpu/cpu.shares; else cat memory.max pids.max; fi")
	if got != "33554432\n7\n512\n" && got != "33554432\n7\n" {
		t.Errorf("limits in the container: %q", got)
	}
	// tail keeps all of a line that does not end.
	r := run(t, c, garden.ProcessSpec{Path: "sh", Args: []string{"-c", "head -c 100m /dev/zero | tail -n 1 >/dev/null; exit $?"}}, nil)
	if r.code != 137 {
		t.Errorf("100 MiB in a container of 32: %+v", r)
	}
	// Process 1 and the shell are there, so that five more are all.
	r = run(t, c, garden.ProcessSpec{Path: "sh", Args: []string{"-c", "for i in 1 2 3 4 5; do sleep 600 >/dev/null 2>&1 & done; echo five; sleep 600 >/dev/null 2>&1 & echo six"}}, nil)
	if r.stdout != "five\n" || !strings.Contains(r.stderr, "fork") {
		t.Errorf("six children in a container of seven: %+v", r)
	}
	if memory, err := c.CurrentMemoryLimits(); err != nil || memory.LimitInBytes != 32<<20 {
		t.Errorf("memory limit %v, %v", memory, err)
	}
}

// started runs a script that says "ready" before it goes on, and returns once it has. What it is to do with signals comes before that.
func started(t *testing.T, c garden.Container, before, script string) garden.Process {
	t.Helper()
	ready := &lineWaiter{line: make(chan string, 1)}
	p, err := c.Run(garden.ProcessSpec{Path: "sh", Args: []string{"-c", before + "echo ready; " + script}}, garden.ProcessIO{Stdout: ready})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-ready.line; got != "ready" {
		t.Fatalf("the process says %q", got)
	}
	return p
}

// lineWaiter passes its first line on.
type lineWaiter struct {
	text bytes.Buffer
	line chan string
	done bool
}

func (l *lineWaiter) Write(b []byte) (int, error) {
	l.text.Write(b)
	if line, _, ok := strings.Cut(l.text.String(), "\n"); ok && !l.done {
		l.done = true
		l.line <- line
	}
	return len(b), nil
}

func testStop(t *testing.T, c garden.Container) {
	for _, test := range []struct {
		name           string
		kill           bool
		before, script string
		code           int
	}{
		{"term", false, "", "exec sleep 600", 143},
		{"term is handled", false, "trap 'exit 5' TERM; ", "while :; do :; done", 5}, // one process: a child that is being made would miss the signal
		{"kill", true, "trap '' TERM; ", "exec sleep 600", 137},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := started(t, c, test.before, test.script)
			if err := c.Stop(test.kill); err != nil {
				t.Fatal(err)
			}
			if code, err := p.Wait(); err != nil || code != test.code {
				t.Errorf("code %d, %v; want %d", code, err, test.code)
			}
		})
	}
	if got := sh(t, c, "echo alive"); got != "alive\n" {
		t.Errorf("after stopping: %q", got)
	}
}

// proceed lets a process go on that waits for /go, and waits for what it makes then.
const proceed = "touch /go; until [ -e /done ]; do sleep 0.05; done; rm /go /done"

const waiting = "until [ -e /go ]; do sleep 0.05; done; echo text; touch /done"

func (w *world) testClientGone(t *testing.T) {
	p := NewProxy(t, w.Garden)
	w.create(t, "gone", nil)
	c, err := dial(t, p.Address()).Lookup("gone")
	if err != nil {
		t.Fatal(err)
	}
	process := started(t, c, "trap '' PIPE; ", waiting)
	p.Cut()
	if code, err := process.Wait(); err == nil {
		t.Errorf("a client whose connection is cut hears of exit code %d", code)
	}
	sh(t, c, proceed)
	p.Refuse()
	if _, err := net.Dial("tcp", strings.TrimPrefix(p.Address(), "tcp://")); err == nil {
		t.Error("a connection that should be refused")
	}
}

func (w *world) testRestart(t *testing.T) {
	c := w.create(t, "lives", func(s *garden.ContainerSpec) {
		s.Env, s.Properties = []string{"KEPT=yes"}, garden.Properties{"first": "1"}
	})
	if err := c.SetProperty("second", "2"); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(){"kill": w.KillGarden, "stop": func() { w.StopGarden(t) }} {
		t.Run(name, func(t *testing.T) {
			before := w.GardenPID()
			process := started(t, c, "trap '' PIPE; ", waiting)
			end()
			if code, err := process.Wait(); err == nil {
				t.Errorf("a process of a server that is gone ended with %d", code)
			}
			if w.client.Ping() == nil {
				t.Error("the server answers still")
			}
			w.StartGarden(t)
			if w.GardenPID() == before {
				t.Error("the new server is the old one")
			}
			if got := w.Containers(t); !slices.Equal(got, []string{"lives", "one"}) {
				t.Errorf("containers %q", got)
			}
			if got, err := c.Properties(); err != nil || got["first"] != "1" || got["second"] != "2" {
				t.Errorf("properties %v, %v", got, err)
			}
			if _, err := w.tryCreate("lives", nil); err == nil {
				t.Error("a second container of a handle that was there before: no error")
			}
			sh(t, c, proceed)
			if got := sh(t, c, "echo $KEPT"); got != "yes\n" {
				t.Errorf("environment: %q", got)
			}
		})
	}
	t.Run("kill while creating", w.testKillWhileCreating)
	t.Run("baggageclaim", func(t *testing.T) {
		volumes := w.Volumes(t)
		w.KillBaggageclaim()
		w.StartBaggageclaim(t)
		if got := w.Volumes(t); !slices.Equal(got, volumes) {
			t.Errorf("volumes %q; before they were %q", got, volumes)
		}
		if _, err := os.Stat(w.root + "/bin/busybox"); err != nil {
			t.Error(err)
		}
		w.create(t, "after", nil)
	})
}

// testKillWhileCreating kills the server while runc is at work: what is found afterwards is whole, or nothing is.
func (w *world) testKillWhileCreating(t *testing.T) {
	ended := make(chan error, 1)
	go func() {
		_, err := w.tryCreate("half", nil)
		ended <- err
	}()
	begun := filepath.Join(w.Dir, "garden", "engine", "bundles", "half", "config.json")
	testkit.Until(t, "there is a sign of a creation", func() bool { // a program that is to be killed tells nobody how far it is
		_, err := os.Stat(begun)
		return err == nil
	})
	w.KillGarden()
	whole := <-ended == nil
	w.StartGarden(t)
	if slices.Contains(w.Containers(t), "half") {
		c, err := w.client.Lookup("half")
		if err != nil {
			t.Fatal(err)
		}
		if got := sh(t, c, "echo whole"); got != "whole\n" {
			t.Errorf("a container that is listed: %q", got)
		}
		if err := w.client.Destroy("half"); err != nil {
			t.Fatal(err)
		}
	} else if whole {
		t.Error("a container that was answered for is not there")
	}
	c := w.create(t, "half", nil)
	if got := sh(t, c, "echo new"); got != "new\n" {
		t.Errorf("made again: %q", got)
	}
}
