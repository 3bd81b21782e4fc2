//go:build linux

package nomad

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// socketTo is a unix socket that leads to a TCP address, and counts who comes.
func socketTo(t *testing.T, address string) (path string, came *atomic.Int32) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nomad-") // a socket's path may have 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path, came = filepath.Join(dir, "sock"), new(atomic.Int32)
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var own sync.WaitGroup
	own.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			pass := func(to, from net.Conn) { _, _ = io.Copy(to, from); to.Close(); from.Close() }
			own.Go(func() { pass(in, out) })
			own.Go(func() { pass(out, in) })
		}
	})
	t.Cleanup(func() { lis.Close(); own.Wait() })
	return path, came
}

// testSocket has a block that reaches its agent by a unix socket only: a container's whole life, with commands that go to the node itself, and such that go by way of
// the socket, too.
func testSocket(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	path, came := socketTo(t, strings.TrimPrefix(a.Address(), "http://"))
	c := config(a)
	c.Address = "unix://" + path
	_, n := open(t, a, c, nil)
	healthy(ctx, t, n)
	const id = "socket"
	if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: id, Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := n.StartProcess(ctx, id, sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", "exit 6"}}); err != nil {
		t.Fatal(err)
	}
	var exit sdk.Exit
	if err := n.FollowProcess(ctx, id, "p", 0, sdk.Follow{Exit: func(e sdk.Exit) error { exit = e; return nil }}); err != nil || exit.Code != 6 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
	p, err := n.where(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]struct {
		node agent
		by   way
	}{"to the node": {n.agent(), direct}, "by the socket": {agent{}, byTheBlock}} {
		before := came.Load()
		var out bytes.Buffer
		by, code, err := n.cluster.exec(ctx, to.node, p.alloc, taskName, []string{"/bin/sh", "-c", "echo here; exit 3"}, strings.NewReader(""), &out, io.Discard)
		if err != nil || by != to.by || code != 3 || out.String() != "here\n" {
			t.Errorf("a command %s: it went by %d, status %d, output %q, error %v", name, by, code, out.String(), err)
		}
		if by == byTheBlock && came.Load() == before {
			t.Errorf("a command %s: nobody came by the socket", name)
		}
	}
	if err := n.DestroyContainer(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := n.lookup(ctx, id); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("its job is left: %v", err)
	}
}

// testRegistered looks at all that the cluster has of a container in which a process runs that was given a secret. Nothing of that is there, nor the plugin's own token;
// and nothing of it is ever begun again.
func testRegistered(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	const id, secret, token, piped = "seen", "s3cret-of-a-step", "6f2b64ad-1b5f-4f0c-9bd1-5d0b2e0f7a11", "s3cret-of-stdin"
	c := config(a)
	c.Token = token
	_, n := open(t, a, c, nil)
	if err := n.CreateContainer(ctx, sdk.ContainerSpec{ID: id, Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	p := sdk.ProcessSpec{ID: "p", Token: "t", Path: "/bin/sh", Args: []string{"-c", `read line; test "$line$PASSWORD" = ` + piped + secret}, Env: []string{"PASSWORD=" + secret}, Stdin: true}
	if err := n.StartProcess(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	var exit sdk.Exit
	err := n.FollowProcess(ctx, id, "p", 0, sdk.Follow{Stdin: strings.NewReader(piped + "\n"), Exit: func(e sdk.Exit) error { exit = e; return nil }})
	if err != nil || exit.Code != 0 || exit.Signal != "" {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
	q := new(api.QueryOptions).WithContext(ctx)
	job, _, err := a.Client().Jobs().Info(jobID(id), q)
	if err != nil {
		t.Fatal(err)
	}
	allocs, _, err := a.Client().Jobs().Allocations(jobID(id), true, q)
	if err != nil || len(allocs) != 1 {
		t.Fatalf("it has the allocations %v; %v", allocs, err)
	}
	alloc, _, err := a.Client().Allocations().Info(allocs[0].ID, q)
	if err != nil {
		t.Fatal(err)
	}
	evals, _, err := a.Client().Jobs().Evaluations(jobID(id), q)
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal([]any{job, alloc, evals})
	if err != nil || !bytes.Contains(all, []byte(id)) {
		t.Fatalf("%s; %v", all, err)
	}
	for _, s := range []string{secret, token, piped} {
		if bytes.Contains(all, []byte(s)) {
			t.Errorf("the cluster knows %q", s)
		}
	}
	g := job.TaskGroups[0]
	if *g.RestartPolicy.Attempts != 0 || *g.RestartPolicy.Mode != api.RestartPolicyModeFail || *g.Tasks[0].RestartPolicy.Attempts != 0 ||
		*g.ReschedulePolicy.Attempts != 0 || *g.ReschedulePolicy.Unlimited || len(g.Tasks[0].Env) > 0 {
		t.Errorf("its group is registered as %+v, %+v, its task as %+v with the environment %q", g.RestartPolicy, g.ReschedulePolicy, g.Tasks[0].RestartPolicy, g.Tasks[0].Env)
	}
	if err := n.DestroyContainer(ctx, id); err != nil {
		t.Error(err)
	}
}

// testNoPlace asks for more than there is. Nomad's own evaluation says so, before anything is placed: nobody waits until a time is over. Nothing may start later.
func testNoPlace(t *testing.T, a *nomadtest.Agent, n *node) {
	ctx := testkit.Context(t)
	// A limit of memory raw_exec cannot hold, but Nomad reserves it.
	err := n.create(ctx, sdk.ContainerSpec{ID: "huge", Token: "t", Limits: sdk.Resources{MemoryBytes: 1 << 50}}, func(p sdk.Progress) {
		if p.Phase != "queued" { // it is starting: it was placed
			t.Errorf("it is told of as %+v", p)
		}
	})
	if !errors.Is(err, sdk.Unsupported) || !errors.Is(err, sdk.ReasonTooLarge) || !strings.Contains(err.Error(), "memory") { // a larger node may have room
		t.Errorf("%v, want it to be Unsupported (too-large) and to name memory", err)
	}
	if _, err := n.lookup(ctx, "huge"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("its job is left: %v", err)
	}
	q := new(api.QueryOptions).WithContext(ctx)
	allocs, _, err := a.Client().Allocations().List(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range allocs {
		if s.JobID == jobID("huge") {
			t.Errorf("it was placed: allocation %s is %s", s.ID, s.ClientStatus)
		}
	}
	testkit.Until(t, "no evaluation waits for room for it", func() bool {
		evals, _, err := a.Client().Evaluations().List(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evals {
			if e.JobID == jobID("huge") && (e.Status == api.EvalStatusBlocked || e.Status == api.EvalStatusPending) {
				return false
			}
		}
		return true
	})
}
