//go:build linux

package nomadtest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
)

const (
	cleanLimit = 30 * time.Second // at least, for a clean-up, also where a test has waited to its end; 3 s is usual
	askLimit   = 10 * time.Second // for each thing that the agent is asked to end; then it is done by force
	portTries  = 5                // a port may be lost to another between choosing and binding it
)

// Agent is one running Nomad, made by Start. Its methods may be called from several goroutines, those that start and end it one at a time.
type Agent struct {
	dir       string
	lock      *os.File
	bin       string
	dev       bool
	ports     ports
	claims    []net.Listener // keep the ports from other tests, as long as the agent may be started again
	transport *http.Transport
	client    *api.Client
	node      string
	exec      bool    // whether the exec driver works
	docker    *docker // nil: it has none
	role      role
	servers   string // where a client finds its servers
	acl       bool
	token     string // that may do everything
	tls       *TLS

	mu   sync.Mutex
	proc *process // the last one started
}

// role is what an agent is in its cluster.
type role int

const (
	alone role = iota // server and client in one
	serving
	working
)

// Start starts an agent, waits until it can run tasks, and clears it away when the test ends: its jobs, processes, mounts, control groups and
// files. It skips the test without root and where the program is missing. What a test binary that was killed had left is cleared away first.
func Start(t testing.TB, o Options) *Agent {
	t.Helper()
	return begin(t, o, &Agent{})
}

// StartCluster starts a server, and clients of it with one node each. What Options say of ACL and TLS the server's say for all. Dev is not for them.
func StartCluster(t testing.TB, server Options, clients ...Options) (*Agent, []*Agent) {
	t.Helper()
	s := begin(t, server, &Agent{role: serving})
	nodes := make([]*Agent, len(clients))
	for i, o := range clients {
		o.ACL, o.TLS = server.ACL, server.TLS
		nodes[i] = begin(t, o, &Agent{role: working, servers: local(s.ports.RPC), token: s.token})
	}
	return s, nodes
}

// begin makes an agent of what is known of it.
func begin(t testing.TB, o Options, a *Agent) *Agent {
	t.Helper()
	bin := program(t)
	a.bin, a.dev, a.acl, a.tls = bin, o.Dev, o.ACL, o.TLS
	if o.Dev && a.role != alone {
		t.Fatal("nomadtest: Options.Dev is for agents that are server and client in one")
	}
	if err := starts.hopeless(); err != nil {
		t.Fatalf("nomadtest: not tried again, for it did not start before: %v", err)
	}
	ctx := testkit.Context(t)
	if err := sweep(ctx); err != nil {
		t.Logf("nomadtest: clearing away what an earlier test left: %v", err)
	}
	if err := a.open(); err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	t.Cleanup(func() { a.cleanUp(t) })
	var err error
	if o.ChrootEnv == nil && a.role != serving {
		if o.ChrootEnv, err = BusyboxRoot(filepath.Join(a.dir, "root")); err != nil {
			testkit.Lacking(t, "%v", err)
		}
	}
	if o.Docker {
		if _, _, err := dockerPrograms(); err != nil {
			testkit.Lacking(t, "%v", err)
		}
		if err := a.startDocker(ctx); err != nil {
			t.Fatalf("nomadtest: %v", err)
		}
	}
	err = a.first(ctx, o, freePorts)
	starts.note(err)
	if err != nil {
		t.Fatalf("nomadtest: %v", err)
	}
	return a
}

// starts is how starting agents went in this process: where none starts, each test would wait for it to its end.
var starts outcome

type outcome struct {
	mu      sync.Mutex
	started bool
	failed  error // the first time, before any was started
}

func (o *outcome) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = o.started || err == nil
	if o.failed == nil && !o.started {
		o.failed = err
	}
}

// hopeless is why the first agent did not start, unless one has since.
func (o *outcome) hopeless() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started {
		return nil
	}
	return o.failed
}

// startDocker starts the agent's Docker and gives it its image.
func (a *Agent) startDocker(ctx context.Context) error {
	d, err := startDocker(ctx, &site{dir: a.dir})
	if err != nil {
		return err
	}
	a.docker = d
	var image bytes.Buffer
	if err := BusyboxArchive(&image, nil); err != nil {
		return err
	}
	return d.importImage(ctx, Image, &image)
}

// open makes the agent's directory and locks it, so that no other test binary takes it for an abandoned one.
func (a *Agent) open() error {
	base, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(base, dirPrefix)
	if err != nil {
		return err
	}
	lock, err := tryLock(dir)
	if err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", dir, err), os.Remove(dir))
	}
	// Tasks of other users live below it; programs that the agent starts make their sockets in tmp.
	err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o700))
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir), lock.Close())
	}
	a.dir, a.lock = dir, lock
	return nil
}

// first starts the agent for the first time, on the ports that choose gives and claims. An agent that ends before it is ready is started again on others,
// but only if one of its own was taken meanwhile.
func (a *Agent) first(ctx context.Context, o Options, choose func() (ports, []net.Listener, error)) error {
	for try := 1; ; try++ {
		a.letPorts()
		var err error
		a.ports, a.claims, err = choose()
		if err != nil {
			return err
		}
		if err := a.configure(o); err != nil {
			return err
		}
		if err := a.connect(); err != nil {
			return err
		}
		err = a.launch(ctx)
		if err == nil || !errors.Is(err, errEnded) || try == portTries || a.ports.free() {
			return err
		}
	}
}

// letPorts gives the agent's ports to whoever wants them.
func (a *Agent) letPorts() {
	for _, c := range a.claims {
		c.Close()
	}
	a.claims = nil
}

// connect makes the client for the agent's address, closing the connections of an earlier one.
func (a *Agent) connect() error {
	if a.transport != nil {
		a.transport.CloseIdleConnections()
	}
	var err error
	if a.transport, err = a.newTransport(); err != nil {
		return err
	}
	a.client, err = api.NewClient(a.apiConfig(&http.Client{Transport: a.transport}))
	return err
}

func (a *Agent) newTransport() (*http.Transport, error) {
	tr := &http.Transport{DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext}
	if a.tls == nil {
		return tr, nil
	}
	tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	return tr, api.ConfigureTLS(&http.Client{Transport: tr}, a.tls.api(a.role))
}

func (a *Agent) apiConfig(c *http.Client) *api.Config {
	conf := &api.Config{Address: a.Address(), HttpClient: c, TLSConfig: &api.TLSConfig{}, SecretID: a.token}
	if a.tls != nil {
		conf.TLSConfig = a.tls.api(a.role)
	}
	return conf
}

// program starts the agent's.
func (a *Agent) program() (*process, error) {
	args := []string{"agent", "-config", filepath.Join(a.dir, "agent.json"), "-config", filepath.Join(a.dir, "more.hcl")}
	if a.dev {
		args = append(args, "-dev")
	}
	return start(a.dir, "the agent", a.bin, args, markServing, markRegistered, markLeading)
}

// Client returns the API client; it is good as long as the test, also across restarts.
func (a *Agent) Client() *api.Client { return a.client }

// Address returns the URL of the HTTP API.
func (a *Agent) Address() string {
	scheme := "http"
	if a.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + local(a.ports.HTTP)
}

// Token returns the secret of the token that may do everything, with Options.ACL.
func (a *Agent) Token() string { return a.token }

// HostVolume returns where this machine has a host volume of the agent's node. Everybody may write there.
func (a *Agent) HostVolume(name string) string { return filepath.Join(a.dir, "volumes", name) }

// Dir returns the directory that everything of the agent is below; data/alloc in it holds the allocations.
func (a *Agent) Dir() string { return a.dir }

// TaskDir returns where this machine has the directory of a task of alloc: of an Exec task it is the root, of a RawExec task the working directory.
func (a *Agent) TaskDir(alloc *api.Allocation, task string) string {
	return filepath.Join(a.dir, "data", "alloc", alloc.ID, task)
}

// NodeID returns the id of the agent's one node, which a restart does not change. A server of StartCluster has none.
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
