//go:build linux

package nomad

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestNode has one agent whose containers are processes of the machine for all that the gate asks a real node.
func TestNode(t *testing.T) {
	a := nomadtest.Start(t, nomadtest.Options{Dev: true, HostVolumes: []string{hostVolume, "taken", "empty", "blocks"}, HCL: `client {
		node_class = "large"
		meta { tags = "gpu, ssd,gpu", team = "red" }
	}`})
	t.Run("life", func(t *testing.T) { testLife(t, a) }) // the first: it wants to find the cluster empty
	t.Run("store", func(t *testing.T) { testStore(t, a) })
	t.Run("blocks", func(t *testing.T) { testBlocks(t, a) })
	t.Run("look", func(t *testing.T) { testLook(t, a) })
}

// testLife walks through a container's life on a real node.
func testLife(t *testing.T, a *nomadtest.Agent) {
	c := config(a)
	rt, n := open(t, a, c, nil)
	ctx := testkit.Context(t)
	if status := healthy(ctx, t, n); status.ContainerIncarnation != a.NodeID() {
		t.Errorf("%+v", status)
	}
	spec := sdk.ContainerSpec{ID: "one", Token: "t", Labels: map[string]string{sdk.LabelInstallation: "i", "a": "b"}}
	var phases []string
	if err := n.CreateContainer(ctx, spec, func(p sdk.Progress) { phases = append(phases, p.Phase) }); err != nil {
		t.Fatal(err)
	}
	if len(phases) == 0 {
		t.Error("nothing was told of its progress")
	}
	if err := n.CreateContainer(ctx, spec, nil); err != nil {
		t.Errorf("the same again: %v", err)
	}
	other := spec
	other.Token = "u"
	if err := n.CreateContainer(ctx, other, nil); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("with another token: %v", err)
	}
	p := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", "echo begun; read line; echo got $line; exit 7"}, Stdin: true}
	if err := n.StartProcess(ctx, "one", p); err != nil {
		t.Fatal(err)
	}
	// Another plugin takes over what this one began.
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	rt, n = open(t, a, c, nil)
	if err := n.StartProcess(ctx, "one", p); err != nil {
		t.Errorf("starting it again: %v", err)
	}
	var out bytes.Buffer
	var exit sdk.Exit
	err := n.FollowProcess(ctx, "one", "p", 0, sdk.Follow{
		Output: func(records []sdk.Record) error {
			for _, r := range records {
				out.Write(r.Data)
			}
			return nil
		},
		Exit:  func(e sdk.Exit) error { exit = e; return nil },
		Stdin: strings.NewReader("\xffline\n"),
	})
	if err != nil || out.String() != "begun\ngot \xffline\n" || exit.Code != 7 {
		t.Errorf("%v; output %q, exit %+v", err, out.String(), exit)
	}
	var listed []sdk.ContainerInfo
	if err := n.ListContainers(ctx, sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: "i"}}, func(i sdk.ContainerInfo) error { listed = append(listed, i); return nil }); err != nil {
		t.Error(err)
	}
	if len(listed) != 1 || listed[0].ID != "one" || listed[0].Token != "t" || listed[0].State != sdk.ContainerReady || listed[0].Labels["a"] != "b" {
		t.Errorf("listed: %+v", listed)
	}
	t.Run("no place", func(t *testing.T) { testNoPlace(t, a, n) })
	if err := n.DestroyContainer(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ListProcesses(ctx, "one"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("after its end: %v", err)
	}
	jobs, _, err := a.Client().Jobs().List(nil)
	if err != nil || len(jobs) > 0 {
		t.Errorf("left in the cluster: %v, %v", jobs, err)
	}
	t.Run("many who wait", func(t *testing.T) { testWaiters(t, a) })
	t.Run("a registration that fails", func(t *testing.T) { testRegistration(t, a) })
	t.Run("a container that takes no command", func(t *testing.T) { testDeaf(t, a) })
	t.Run("a keeper begun anew", func(t *testing.T) { testAnew(t, a) })
	t.Run("an agent at a socket", func(t *testing.T) { testSocket(t, a) })
	t.Run("what is registered", func(t *testing.T) { testRegistered(t, a) })
	t.Run("no shim", func(t *testing.T) { testNoShim(t, a, "raw_exec", "exec") })
	t.Run("ends", func(t *testing.T) { testEnds(t, a) })
	t.Run("a plugin killed while it looks", func(t *testing.T) { testKilledProbe(t, a) })
	t.Run("a program that is not served", func(t *testing.T) { testNotServed(t, a) })
	t.Run("a node without room", func(t *testing.T) { testFull(t, a) })
	t.Run("a namespace that forbids the driver", func(t *testing.T) { testForbidden(t, a) })
	t.Run("a node that is gone", func(t *testing.T) { testInherited(t, a) })
	t.Run("a node that drains", func(t *testing.T) {
		nodes := a.Client().Nodes()
		if _, err := nodes.ToggleEligibility(a.NodeID(), false, nil); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := nodes.ToggleEligibility(a.NodeID(), true, nil); err != nil {
				t.Error(err)
			}
		}()
		for { // until the list has come
			changed, _, _ := rt.state()
			if n.condition() != api.NodeStatusReady {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
		}
		if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "late", Token: "t"}, nil); !errors.Is(err, sdk.Exhausted) {
			t.Errorf("%v, want exhausted", err)
		}
		if s, err := n.Status(ctx); err != nil || s.Health != sdk.Degraded || !strings.Contains(s.Reason, "ineligible") {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// testFull starts a plugin on a node that has no room for a look at what it can do. What runs there is seen and followed all the same.
func testFull(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	c := config(a)
	_, first := open(t, a, c, nil)
	stub, err := first.pool.stub(first.name)
	if err != nil {
		t.Fatal(err)
	}
	const overhead, left = 32, 48 // mebibytes: the keeper's, and less than a look asks for
	all := sdk.ContainerSpec{ID: "all", Token: "t", Limits: sdk.Resources{MemoryBytes: (stub.NodeResources.Memory.MemoryMB - overhead - left) << 20}}
	if err := first.create(ctx, all, func(sdk.Progress) {}); err != nil {
		t.Fatal(err)
	}
	if err := first.StartProcess(ctx, "all", sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", "echo here; exit 3"}}); err != nil {
		t.Fatal(err)
	}
	more := sdk.ContainerSpec{ID: "more", Token: "t", Limits: sdk.Resources{MemoryBytes: left << 20}}
	err = first.create(ctx, more, func(sdk.Progress) {})
	if !errors.Is(err, sdk.Exhausted) || !errors.Is(err, sdk.ReasonMemory) || !strings.Contains(err.Error(), "memory") || !strings.Contains(err.Error(), short(a.NodeID())) {
		t.Errorf("a container for which there is no room now: %v, want it to be Exhausted (memory) and to name the node", err)
	}
	if _, err := first.lookup(ctx, "more"); !sdk.IsNotFound(err, sdk.KindContainer) { // or it would start later
		t.Errorf("its job is left: %v", err)
	}
	_, n := open(t, a, c, nil)
	s, err := n.Status(ctx)
	if err != nil || s.Health != sdk.Degraded || !s.Has(sdk.FeatureLimitsCPU) || !strings.Contains(s.Reason, "what the node can") {
		t.Errorf("%+v, %v; want degraded", s, err)
	}
	var exit sdk.Exit
	if err := n.FollowProcess(ctx, "all", "p", 0, sdk.Follow{Exit: func(e sdk.Exit) error { exit = e; return nil }}); err != nil || exit.Code != 3 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	if err := n.DestroyContainer(ctx, "all"); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, n)
}

// testRegistration has something come between the plugin and its agent while a job is registered: that says nothing of the job.
func testRegistration(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	var fail atomic.Int32               // how many registrations fail: before the agent has them, or, below zero, after
	first := make(chan func() error, 1) // what another does before the next registration
	address := between(t, a, func(next *httputil.ReverseProxy, w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPut && q.URL.Path == "/v1/jobs" {
			select {
			case do := <-first:
				if err := do(); err != nil {
					t.Error(err)
				}
			default:
			}
			switch {
			case fail.Load() > 0:
				fail.Add(-1)
				http.Error(w, "No cluster leader", http.StatusInternalServerError)
				return
			case fail.Load() < 0:
				fail.Add(1)
				next.ServeHTTP(httptest.NewRecorder(), q)
				http.Error(w, "leadership lost while committing log", http.StatusInternalServerError)
				return
			}
		}
		next.ServeHTTP(w, q)
	})
	c := config(a)
	c.Address = address
	_, n := open(t, a, c, nil)
	spec := sdk.ContainerSpec{ID: "registered", Token: "t"}
	fail.Store(1)
	if err := n.CreateContainer(ctx, spec, nil); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "No cluster leader") {
		t.Errorf("%v, want unavailable", err)
	}
	fail.Store(-1)
	if err := n.CreateContainer(ctx, spec, nil); err != nil {
		t.Errorf("a registration whose answer was lost: %v", err)
	}
	if err := n.DestroyContainer(ctx, spec.ID); err != nil {
		t.Error(err)
	}
	_, other := open(t, a, config(a), nil)
	others := sdk.ContainerSpec{ID: "raced", Token: "u"}
	spec.ID = others.ID
	first <- func() error { return other.CreateContainer(ctx, others, nil) }
	if err := n.CreateContainer(ctx, spec, nil); !errors.Is(err, sdk.AlreadyExists) {
		t.Errorf("a registration that came after another's: %v", err)
	}
	if _, err := other.ListProcesses(ctx, others.ID); err != nil {
		t.Errorf("the other's container: %v", err)
	}
	if err := other.DestroyContainer(ctx, others.ID); err != nil {
		t.Error(err)
	}
}

// testDeaf has Nomad refuse all commands in an allocation, as it does when it has lost that its task has started.
func testDeaf(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	var mu sync.Mutex
	first, all := "", false // the path of commands in the first allocation, and whether no other takes any, either
	address := between(t, a, func(next *httputil.ReverseProxy, w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/exec") {
			mu.Lock()
			first = cmp.Or(first, q.URL.Path)
			refused := all || first == q.URL.Path
			mu.Unlock()
			if refused {
				http.Error(w, "it has not started", http.StatusNotFound)
				return
			}
		}
		next.ModifyResponse = func(r *http.Response) error { // or commands go to the node itself
			if !strings.HasPrefix(q.URL.Path, "/v1/node/") {
				return nil
			}
			text, err := io.ReadAll(r.Body)
			text = bytes.ReplaceAll(text, []byte(strings.TrimPrefix(a.Address(), "http://")), []byte(q.Host))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			r.Header.Set("Content-Length", strconv.Itoa(len(text)))
			return err
		}
		next.ServeHTTP(w, q)
	})
	c := config(a)
	c.Address = address
	rt, err := New(map[string]Config{"pool": c}, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), refusals: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	n := nodeOf(t, rt, a, "pool")
	spec := sdk.ContainerSpec{ID: "deaf", Token: "t"}
	if err := n.CreateContainer(ctx, spec, nil); err != nil {
		t.Errorf("where the second one would have taken commands: %v", err)
	}
	if infos, err := n.ListProcesses(ctx, spec.ID); err != nil || len(infos) > 0 {
		t.Errorf("%v, %v", infos, err)
	}
	if err := n.DestroyContainer(ctx, spec.ID); err != nil {
		t.Error(err)
	}
	mu.Lock()
	if first == "" {
		t.Error("nothing was refused")
	}
	all = true
	mu.Unlock()
	if err := n.CreateContainer(ctx, spec, nil); !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "alloc-exec") {
		t.Errorf("%v, want unavailable", err)
	}
	if _, err := n.lookup(ctx, spec.ID); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("after that: %v", err)
	}
}

// testNotServed has a node fetch the shim from where nobody is.
func testNotServed(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	c, lis := fetching(t, config(a))
	c.Serve = "http://127.0.0.1:1"
	_, n := open(t, a, c, lis)
	err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "unserved", Token: "t"}, nil)
	if !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "shim_address") {
		t.Errorf("%v, want unavailable", err)
	}
}

// testWaiters has more who wait for something to change than there are connections: whoever asks for what is known gets it.
func testWaiters(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	c := config(a)
	c.MaxConnections = 8 // four for all but commands
	_, n := open(t, a, c, nil)
	if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: "awaited", Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range 8 {
		go func() { ended <- n.ended(ctx, "awaited") }()
	}
	for { // until all but those that wait for their turn wait at the agent
		n.cluster.waits.mu.Lock()
		turn := n.cluster.waits.of[""]
		n.cluster.waits.mu.Unlock()
		if turn != nil && len(turn) == cap(turn) {
			break
		}
		if _, err := n.lookup(ctx, "awaited"); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := n.lookup(ctx, "awaited"); err != nil {
			t.Error(err)
		}
	}
	if err := n.DestroyContainer(ctx, "awaited"); err != nil {
		t.Error(err)
	}
	for range 8 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
