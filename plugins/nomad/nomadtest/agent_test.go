//go:build linux

package nomadtest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// sleeper is a task that does nothing until it is ended.
func sleeper(driver string) Task {
	t := Task{Driver: driver, Command: "/bin/sleep", Args: []string{"1000"}}
	if driver == Exec {
		t.User = ContainerRoot
	}
	return t
}

// TestTwoAgents has two agents at once, which know nothing of each other.
func TestTwoAgents(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	ctx := testkit.Context(t)
	var agents [2]*Agent
	for i := range agents {
		agents[i] = Start(t, Options{Dev: i == 0})
	}
	if agents[0].NodeID() == agents[1].NodeID() || agents[0].Address() == agents[1].Address() || agents[0].Dir() == agents[1].Dir() {
		t.Fatal("two agents are one")
	}
	var running sync.WaitGroup
	for _, a := range agents {
		running.Go(func() {
			driver := RawExec
			if a.HasExec() {
				driver = Exec
			}
			alloc, err := a.Run(ctx, sleeper(driver))
			if err != nil {
				t.Error(err)
				return
			}
			if alloc.NodeID != a.NodeID() {
				t.Errorf("a task runs on node %s, not on %s", alloc.NodeID, a.NodeID())
			}
		})
	}
	running.Wait()
	for _, a := range agents {
		nodes, _, err := a.Client().Nodes().List(nil)
		if err != nil || len(nodes) != 1 {
			t.Errorf("%d nodes, error %v; want its own", len(nodes), err)
		}
		jobs, _, err := a.Client().Jobs().List(nil)
		if err != nil || len(jobs) != 1 {
			t.Errorf("%d jobs, error %v; want its own", len(jobs), err)
		}
	}
}

// TestOptions looks for each option in what the agent says that it has.
func TestOptions(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	o := Options{MaxConnsPerClient: 77, GCMaxAllocs: 33, GCInterval: 42 * time.Second, Dev: true, HCL: `client { meta { colour = "blue" } }`}
	a := Start(t, o)
	self, err := a.Client().Agent().Self()
	if err != nil {
		t.Fatal(err)
	}
	client := self.Config["Client"].(map[string]any)
	for _, c := range []struct{ name, got, want any }{
		{"HTTPMaxConnsPerClient", self.Config["Limits"].(map[string]any)["HTTPMaxConnsPerClient"], 77.0},
		{"GCMaxAllocs", client["GCMaxAllocs"], 33.0},
		{"GCInterval", client["GCInterval"], float64(42 * time.Second)},
		{"colour", client["Meta"].(map[string]any)["colour"], "blue"},
	} {
		if c.got != c.want {
			t.Errorf("%v is %v; want %v", c.name, c.got, c.want)
		}
	}
	if err := a.Restart(testkit.Context(t)); err == nil {
		t.Error("an agent without state was restarted")
	}
}

// TestChrootEnv gives exec tasks a file system of the caller's choice.
func TestChrootEnv(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	root := filepath.Join(t.TempDir(), "root")
	chroot, err := BusyboxRoot(root)
	if err != nil {
		testkit.Lacking(t, "%v", err)
	}
	own := filepath.Join(root, "own")
	if err := os.WriteFile(own, []byte("this\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	chroot[own] = "/srv/that"
	ctx := testkit.Context(t)
	a := Start(t, Options{Dev: true, ChrootEnv: chroot})
	if !a.HasExec() {
		testkit.Lacking(t, "the exec driver needs control groups")
	}
	alloc, err := a.Run(ctx, sleeper(Exec))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/sh", "-c", "cat /srv/that; ls /usr"}, nil, &out, nil)
	if err != nil || code == 0 || out.String() != "this\n" {
		t.Errorf("code %d, error %v, output %q; want the file, and no /usr", code, err, &out)
	}
	if code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/touch", "/here"}, nil, nil, nil); err != nil || code != 0 {
		t.Fatalf("code %d, error %v", code, err)
	}
	if _, err := os.Stat(filepath.Join(a.TaskDir(alloc, TaskName), "here")); err != nil {
		t.Error(err)
	}
}

// TestRunReasons wants Nomad's own words for a task that does not run.
func TestRunReasons(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	ctx := testkit.Context(t)
	a := Start(t, Options{Dev: true})
	for _, c := range []struct {
		name string
		task Task
		want string
	}{
		{"no such driver", Task{Driver: "docker", Command: "true"}, "missing drivers"},
		{"too much memory", Task{Command: "/bin/true", MemoryMB: 1 << 30}, "memory"},
		{"no such program", Task{Command: "/no/such"}, "/no/such"},
	} {
		alloc, err := a.Run(ctx, c.task)
		if err == nil {
			t.Errorf("%s: runs as %s", c.name, alloc.ID)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want it to tell of %q", c.name, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := a.Run(ended, sleeper(RawExec)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// TestLostPort has the agent find each of its ports taken, and choose others.
func TestLostPort(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	for name, take := range map[string]func(*ports) error{
		"http": func(p *ports) error { return hold(t, p.HTTP) },
		"rpc":  func(p *ports) error { return hold(t, p.RPC) },
		"serf": func(p *ports) error { return hold(t, p.Serf) },
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{bin: program(t), dev: true}
			err := a.open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { a.cleanUp(t) })
			chosen := 0
			err = a.first(testkit.Context(t), Options{Dev: true}, func() (ports, []net.Listener, error) {
				p, claims, err := freePorts()
				if chosen++; chosen == 1 && err == nil {
					err = take(&p)
				}
				return p, claims, err
			})
			if err != nil || chosen != 2 {
				t.Errorf("chose %d times, error %v; want twice and none", chosen, err)
			}
		})
	}
}

func hold(t *testing.T, port int) error {
	l, err := net.Listen("tcp", local(port))
	if err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return err
}

// TestBadConfiguration tells why an agent does not start, and does not try again.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	a := &Agent{bin: program(t), dev: true}
	err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.cleanUp(t) })
	chosen := 0
	err = a.first(testkit.Context(t), Options{HCL: "no_such_setting = true"}, func() (ports, []net.Listener, error) {
		chosen++
		return freePorts()
	})
	if !errors.Is(err, errEnded) || !strings.Contains(err.Error(), "no_such_setting") || chosen != 1 {
		t.Errorf("chose ports %d times, error %v; want once, and what Nomad said", chosen, err)
	}
}

// TestCachedProgram holds the two rules for the program's place in the cache together: build.sh's and this package's.
func TestCachedProgram(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	link, err := os.Readlink(filepath.Join(root, "bin", "nomad"))
	if err != nil {
		testkit.Lacking(t, "%v", err)
	}
	got, err := cachedProgram(root)
	if err != nil || got != link {
		t.Errorf("cached at %s, error %v; build.sh has it at %s", got, err, link)
	}
}
