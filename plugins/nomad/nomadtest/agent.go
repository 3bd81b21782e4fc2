//go:build linux

package nomadtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

const (
	startLimit = 60 * time.Second // for an agent to be ready; 3 s is usual
	stopLimit  = 60 * time.Second // for a whole clean-up; 3 s is usual
	askLimit   = 10 * time.Second // for each thing that the agent is asked to end; then it is done by force
	portTries  = 5                // a port may be lost to another between choosing and binding it
)

// Options are what an agent may have otherwise. The zero value is usable.
type Options struct {
	// ChrootEnv maps paths of this machine to paths in the chroot of exec tasks. Nil means what BusyboxRoot gives: a static busybox with its applets
	// in /bin, and root and nobody in /etc. Nomad makes hard links where it can, so that a task's root may change what is named here.
	ChrootEnv map[string]string

	MaxConnsPerClient int           // HTTP connections that one address may hold; 0: no limit (without this package it would be 100)
	GCMaxAllocs       int           // allocations on the node that make Nomad clear away ended ones; 0: Nomad's 50
	GCInterval        time.Duration // between looks for them; 0: Nomad's minute

	// Dev has the agent keep its state in memory. It is ready in two seconds then, but stopping it ends its tasks, and it is never started again:
	// Restart is an error, and what outlives Kill is lost to Nomad. Without it an agent needs 2 to 12 seconds, for Nomad draws when a node reports.
	Dev bool

	// HCL is read after, and so over, the package's own configuration.
	HCL string
}

// Agent is one running Nomad, made by Start. Its methods may be called from several goroutines, those that start and end it one at a time.
type Agent struct {
	dir       string
	lock      *os.File
	bin       string
	dev       bool
	ports     ports
	transport *http.Transport
	client    *api.Client
	node      string
	exec      bool // whether the exec driver works

	mu   sync.Mutex
	proc *process // the last one started
}

// Start starts an agent, waits until it can run tasks, and clears it away when the test ends: its jobs, processes, mounts, control groups and
// files. It skips the test without root and where the program is missing. What a test binary that was killed had left is cleared away first.
func Start(t testing.TB, o Options) *Agent {
	t.Helper()
	bin := program(t)
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := sweep(ctx); err != nil {
		t.Logf("nomadtest: clearing away what an earlier test left: %v", err)
	}
	a, err := open(bin, o.Dev)
	if err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	t.Cleanup(func() { a.cleanUp(t) })
	if o.ChrootEnv == nil {
		if o.ChrootEnv, err = BusyboxRoot(filepath.Join(a.dir, "root")); err != nil {
			lacking(t, err)
		}
	}
	if err := a.first(ctx, o, freePorts); err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	return a
}

// open makes the agent's directory and locks it, so that no other test binary takes it for an abandoned one.
func open(bin string, dev bool) (*Agent, error) {
	base, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := tryLock(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), os.Remove(dir))
	}
	// Tasks of other users live below it; programs that the agent starts make their sockets in tmp.
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir), lock.Close())
	}
	return &Agent{dir: dir, lock: lock, bin: bin, dev: dev}, nil
}

// first starts the agent for the first time, on the ports that choose gives. An agent that ends before it is ready is started again on others, but
// only if one of its own was taken meanwhile.
func (a *Agent) first(ctx context.Context, o Options, choose func() (ports, error)) error {
	for try := 1; ; try++ {
		p, err := choose()
		if err != nil {
			return err
		}
		a.ports = p
		if err := a.configure(o); err != nil {
			return err
		}
		if err := a.connect(); err != nil {
			return err
		}
		err = a.launch(ctx)
		if err == nil || !errors.Is(err, errEnded) || try == portTries || p.free() {
			return err
		}
	}
}

// connect makes the client for the agent's address, closing the connections of an earlier one.
func (a *Agent) connect() error {
	if a.transport != nil {
		a.transport.CloseIdleConnections()
	}
	a.transport = &http.Transport{DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
	c, err := api.NewClient(a.apiConfig(&http.Client{Transport: a.transport}))
	a.client = c
	return err
}

func (a *Agent) apiConfig(c *http.Client) *api.Config {
	return &api.Config{Address: a.Address(), HttpClient: c, TLSConfig: &api.TLSConfig{}}
}

// launch starts the program and waits until it is ready; one that is not is killed again.
func (a *Agent) launch(ctx context.Context) error {
	p, err := start(a.bin, a.dir, a.dev)
	if err != nil {
		return err
	}
	a.proc = p
	node, err := a.ready(ctx, p)
	if err != nil {
		p.kill()
		return fmt.Errorf("the agent (pid %d) was not ready: %w", p.pid(), err)
	}
	if a.node == "" {
		a.node, a.exec = node.ID, node.Drivers[Exec].Healthy
		return nil
	}
	if node.ID != a.node || node.Drivers[Exec].Healthy != a.exec {
		p.kill()
		return fmt.Errorf("the agent (pid %d) has become another: node %s, not %s", p.pid(), node.ID, a.node)
	}
	return nil
}

// ready waits for the agent's own word that it serves and has registered, then for the node. After a restart the servers know the node as ready
// from before, which is why the agent's word comes first.
func (a *Agent) ready(ctx context.Context, p *process) (*api.Node, error) {
	for _, m := range []string{markServing, markRegistered} {
		if err := p.await(ctx, m); err != nil {
			return nil, err
		}
	}
	// Without a key the servers cannot place anything, and wait a second before they try again.
	err := watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		keys, meta, err := a.client.Keyring().List(q)
		return meta, slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool { return k.State == api.RootKeyStateActive }), err
	})
	if err != nil {
		return nil, fmt.Errorf("the servers' keys: %w", err)
	}
	self, err := a.client.Agent().Self()
	if err != nil {
		return nil, err
	}
	id := self.Stats["client"]["node_id"]
	var node *api.Node
	err = watch(ctx, func(q *api.QueryOptions) (*api.QueryMeta, bool, error) {
		n, meta, err := a.client.Nodes().Info(id, q)
		if err != nil {
			return nil, false, err
		}
		node = n
		raw, exec := n.Drivers[RawExec], n.Drivers[Exec]
		up := n.Status == api.NodeStatusReady && n.SchedulingEligibility == api.NodeSchedulingEligible
		return meta, up && raw != nil && raw.Healthy && exec != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", id, err)
	}
	return node, nil
}

// Client returns the API client; it is good as long as the test, also across restarts.
func (a *Agent) Client() *api.Client { return a.client }

// Address returns the URL of the HTTP API.
func (a *Agent) Address() string { return fmt.Sprintf("http://127.0.0.1:%d", a.ports.HTTP) }

// Dir returns the directory that everything of the agent is below; data/alloc in it holds the allocations.
func (a *Agent) Dir() string { return a.dir }

// TaskDir returns where this machine has the directory of a task of alloc: of an Exec task it is the root, of a RawExec task the working directory.
func (a *Agent) TaskDir(alloc *api.Allocation, task string) string {
	return filepath.Join(a.dir, "data", "alloc", alloc.ID, task)
}

// NodeID returns the id of the agent's one node, which a restart does not change.
func (a *Agent) NodeID() string { return a.node }

// HasExec tells whether the exec driver is there: it needs control groups.
func (a *Agent) HasExec() bool { return a.exec }

// PID returns the process id of the agent that was started last.
func (a *Agent) PID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.proc.pid()
}

// Stop ends the agent in order; tasks go on running. An agent that runs no more is no error. If ctx ends first, the agent may still be running.
func (a *Agent) Stop(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.proc.stop(ctx)
}

// Kill ends the agent with SIGKILL, and only it: tasks and their executors go on running. It returns when the agent is gone.
//
// With control groups of version 1, an exec task that has outlived its agent, killed or stopped, does not outlive the next Exec in it: Nomad's executor
// writes a warning to the agent that is gone, and ends of that. RawExec tasks have no such flaw.
func (a *Agent) Kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.proc.kill()
}

// Restart starts the agent again, on the same directory and ports, after stopping it if it runs, and waits until it is ready. Allocations whose
// tasks still run are taken up again by then.
func (a *Agent) Restart(ctx context.Context) error {
	if a.dev {
		return errors.New("an agent with Options.Dev has no state to start again with: leave Dev out")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.proc.stop(ctx); err != nil {
		return err
	}
	a.transport.CloseIdleConnections() // those of the agent that is gone
	return a.launch(ctx)
}
