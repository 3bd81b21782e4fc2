//go:build linux

package nomad

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testKilledProbe kills the plugin's program while it looks at what a node can do. What it leaves the next one takes away, and nothing of one that lives.
func testKilledProbe(t *testing.T, a *nomadtest.Agent) {
	ctx := testkit.Context(t)
	placing := make(chan struct{})
	var once sync.Once
	address := between(t, a, func(next *httputil.ReverseProxy, w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/v1/evaluation/") { // it has made the job, and waits for its place
			once.Do(func() { close(placing) })
			<-q.Context().Done()
			return
		}
		next.ServeHTTP(w, q)
	})
	c := config(a)
	held := c
	held.Address = address
	settings, err := json.Marshal(held)
	if err != nil {
		t.Fatal(err)
	}
	plugin := launch.Start(launch.Spec{Name: "nomad", Command: program("slipway-nomad"), Configure: func(context.Context, sdk.PluginInfo) (sdk.Block, []sdk.Block, error) {
		return sdk.Block{Name: "nomad"}, []sdk.Block{{Name: "pool", Values: settings}}, nil
	}}, launch.Options{StartTimeout: testkit.Bound(t), ConfigureTimeout: testkit.Bound(t), HealthMisses: 1000, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), testkit.Bound(t))
		defer cancel()
		plugin.Stop(ctx)
	}()
	session, err := plugin.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w, err := session.Runtime.Worker("pool/" + a.NodeID()[:8])
	if err != nil {
		t.Fatal(err)
	}
	asking, enough := context.WithCancel(ctx)
	asked := make(chan struct{})
	go func() { // which begins the look
		defer close(asked)
		_, _ = w.Status(asking)
	}()
	defer func() { enough(); <-asked }()
	select {
	case <-placing:
	case <-ctx.Done():
		t.Fatal("it never looks at what the node can do")
	}
	probes := func() (ids []string) {
		t.Helper()
		jobs, _, err := a.Client().Jobs().List((&api.QueryOptions{Prefix: jobPrefix + probePrefix}).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		return ids
	}
	another := func() {
		t.Helper()
		rt := openRuntime(t, "nomad", map[string]Config{"pool": c}, nil)
		healthy(ctx, t, nodeOf(t, rt, a, "pool"))
	}
	another()
	if left := probes(); len(left) != 1 {
		t.Errorf("while a plugin looks there are the probes %q", left)
	}
	pid := plugin.State().PID
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-session.Gone:
	case <-ctx.Done():
		t.Fatal("it is not told that the plugin has gone")
	}
	another()
	if left := probes(); len(left) > 0 {
		t.Errorf("of a plugin that was killed there is left %q", left)
	}
}

// TestMaker tells processes that run from those that have ended.
func TestMaker(t *testing.T) {
	own := thisProcess()
	if own == "" || hasEnded(own) {
		t.Errorf("this process is %q, and has ended", own)
	}
	child := exec.Command("/bin/true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	where, err := whereabouts()
	if err != nil {
		t.Fatal(err)
	}
	began, err := beginning(child.Process.Pid)
	if err != nil {
		began = "1" // it has ended already
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	name := where + " " + strconv.Itoa(child.Process.Pid) + " " + began
	if !hasEnded(name) {
		t.Errorf("%q has not ended", name)
	}
	fields := strings.Fields(own)
	for _, unknown := range []string{"", "x", where, where + " ", where + " x 1", where + " -1 1", "other " + strings.Join(fields[1:], " ")} {
		if hasEnded(unknown) {
			t.Errorf("%q has ended", unknown)
		}
	}
	if later := strings.Join(append(fields[:len(fields)-1:len(fields)-1], "1"), " "); !hasEnded(later) {
		t.Errorf("%q has ended: another process has its number", later)
	}
}
