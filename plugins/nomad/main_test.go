//go:build linux

package nomad

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// built is where the programs are that nodes need.
var built string

func TestMain(m *testing.M) {
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(built)
		os.Exit(1)
	}
	testkit.Main(m, func() { os.RemoveAll(built) })
}

// build makes the programs.
func build() error {
	dir, err := os.MkdirTemp("", "slipway-built-")
	if err != nil {
		return err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // tasks are of all users
		return err
	}
	for name, pkg := range map[string]string{
		shimProgram: "sdk/shim/cmd", storeProgram: "plugins/nomad/store/cmd", "slipway-nomad": "plugins/nomad/cmd",
		"slipway": "cmd/host", "slipway-memory": "plugins/memory/cmd", "slipway-garden": "plugins/garden/cmd",
	} {
		if err := testkit.Build(program(name), "github.com/slipway-run/slipway/"+pkg); err != nil {
			return err
		}
	}
	for _, name := range []string{shimProgram, storeProgram} { // as plugins look for them
		if err := os.Link(program(name), program(name+"-linux-"+runtime.GOARCH)); err != nil {
			return err
		}
	}
	return nil
}

func program(name string) string { return filepath.Join(built, name) }

// hostVolume is where nodes keep volumes.
const hostVolume = "slipway"

// patient is a time that no test is to see the end of.
var patient = sdk.Duration(testkit.Scale(2 * time.Minute))

// config is a block for an agent's one node, whose containers are processes of the machine.
func config(a *nomadtest.Agent) Config {
	return Config{
		Address: a.Address(), Namespace: "default", Driver: "raw_exec", Privileged: "deny", Architecture: "amd64", ShimPath: program(shimProgram),
		CPU: 10, Memory: 64 << 20, MaxConnections: 32, Rate: 100,
		PlaceTimeout: patient, StartTimeout: patient, RequestTimeout: patient,
	}
}

// onDocker is a block for an agent's one node, with containers and a store of docker's. Nodes have the programs.
func onDocker(a *nomadtest.Agent) Config {
	c := config(a)
	c.Driver, c.Image, c.Privileged = "docker", nomadtest.Image, "allow"
	c.Store = &StoreConfig{HostVolume: hostVolume, Path: program(storeProgram), CPU: 10}
	return c
}

// fetching has nodes fetch the programs from the plugin.
func fetching(t *testing.T, c Config) (Config, net.Listener) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	c.Shim, c.ShimPath, c.Listen, c.Serve = c.ShimPath, "", lis.Addr().String(), "http://"+lis.Addr().String()
	if c.Store != nil {
		s := *c.Store
		s.Program, s.Path = s.Path, ""
		c.Store = &s
	}
	return c, lis
}

// open makes a runtime with a block "pool", and gives the worker of the agent's node once it is told of.
func open(t *testing.T, a *nomadtest.Agent, c Config, lis net.Listener) (*Runtime, *node) {
	t.Helper()
	rt := openRuntime(t, "", map[string]Config{"pool": c}, lis)
	return rt, nodeOf(t, rt, a, "pool")
}

// openRuntime makes a runtime that the test's end closes.
func openRuntime(t *testing.T, plugin string, blocks map[string]Config, lis net.Listener) *Runtime {
	t.Helper()
	rt, err := New(blocks, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Plugin: plugin, listener: lis})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// nodeOf gives a block's worker for the agent's node once it is told of.
func nodeOf(t *testing.T, rt *Runtime, a *nomadtest.Agent, block string) *node {
	t.Helper()
	name := block + "/" + a.NodeID()[:8]
	told(t, rt, name)
	w, err := rt.Worker(name)
	if err != nil {
		t.Fatal(err)
	}
	return w.(*node)
}

// told waits until a worker is told of.
func told(t *testing.T, rt *Runtime, name string) {
	t.Helper()
	ctx := testkit.Context(t)
	found := errors.New("found")
	err := rt.Workers(ctx, func(e sdk.WorkerEvent) error {
		for _, w := range e.Workers {
			if w.Name == name && e.Kind != sdk.WorkerRemove {
				return found
			}
		}
		return nil
	})
	if err != found {
		t.Fatalf("no worker %s: %v", name, err)
	}
}

// between has what is asked of an agent go by handle, which asks the agent itself by pass. It gives the address to ask at, and lasts longer than what
// the test opens after it.
func between(t *testing.T, a *nomadtest.Agent, handle func(pass *httputil.ReverseProxy, w http.ResponseWriter, q *http.Request)) (address string) {
	t.Helper()
	to, err := url.Parse(a.Address())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		handle(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Accept-Encoding") // what is read on the way
		}}, w, q)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
