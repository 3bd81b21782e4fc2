//go:build linux

package nomad

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// question is one for the list of nodes; whoever takes it answers.
type question struct {
	index, wait string
	answer      chan func(http.ResponseWriter)
}

// listing is a cluster whose nodes a test tells, one answer at a time.
func listing(t *testing.T) (address string, asked <-chan question) {
	t.Helper()
	questions := make(chan question)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/node/{id}", func(w http.ResponseWriter, q *http.Request) {
		_ = json.NewEncoder(w).Encode(api.Node{ID: q.PathValue("id"), Attributes: map[string]string{"kernel.name": "linux", "cpu.arch": "amd64"}})
	})
	mux.HandleFunc("GET /v1/nodes", func(w http.ResponseWriter, q *http.Request) {
		ask := question{q.URL.Query().Get("index"), q.URL.Query().Get("wait"), make(chan func(http.ResponseWriter))}
		select {
		case questions <- ask:
		case <-q.Context().Done():
			return
		}
		select {
		case say := <-ask.answer:
			say(w)
		case <-q.Context().Done():
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, questions
}

// are answers that there are these nodes, at an index.
func are(index string, nodes ...*api.NodeListStub) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("X-Nomad-Index", index)
		w.Header().Set("X-Nomad-KnownLeader", "true")
		w.Header().Set("X-Nomad-LastContact", "0")
		_ = json.NewEncoder(w).Encode(nodes)
	}
}

// TestRelist has the list of nodes told anew: now and then where nothing has changed, where the servers' state was set back, and after a failure. What counts is what
// the last list says, also where its index is that of the one before.
func TestRelist(t *testing.T) {
	address, asked := listing(t)
	rt := openRuntime(t, "", map[string]Config{"pool": {
		Address: address, Namespace: "default", Driver: "raw_exec", Privileged: "deny", Architecture: "amd64", ShimPath: "/shim",
		CPU: 10, Memory: 64 << 20, MaxConnections: 32, Rate: 100, PlaceTimeout: patient, StartTimeout: patient, RequestTimeout: patient,
	}}, nil)
	node := func(id string, drains bool) *api.NodeListStub {
		return &api.NodeListStub{
			ID: id, Status: api.NodeStatusReady, SchedulingEligibility: api.NodeSchedulingEligible, Drain: drains,
			Drivers: map[string]*api.DriverInfo{"raw_exec": {Detected: true, Healthy: true}},
		}
	}
	ctx := testkit.Context(t)
	for i, step := range []struct {
		workers     []string // that are told of when the question comes
		drains      bool     // the first of them
		index, wait string   // of the question
		answer      func(http.ResponseWriter)
	}{
		{[]string{"pool"}, false, "", "60000ms", are("5", node("aaaaaaaa-1", false))},
		{[]string{"pool/aaaaaaaa"}, false, "5", "60000ms", are("5", node("aaaaaaaa-1", true), node("bbbbbbbb-1", false))}, // a change that nobody told of
		{[]string{"pool/aaaaaaaa", "pool/bbbbbbbb"}, true, "5", "60000ms", are("3")},
		{[]string{"pool/aaaaaaaa", "pool/bbbbbbbb"}, true, "", "60000ms", are("3", node("bbbbbbbb-1", false))},
		{[]string{"pool/bbbbbbbb"}, false, "3", "60000ms", func(w http.ResponseWriter) { http.Error(w, "No cluster leader", http.StatusInternalServerError) }},
		{[]string{"pool/bbbbbbbb"}, false, "", "60000ms", are("9", node("aaaaaaaa-1", false))},
		{[]string{"pool/aaaaaaaa"}, false, "9", "60000ms", are("9")},
	} {
		var q question
		select {
		case q = <-asked:
		case <-ctx.Done():
			t.Fatalf("question %d does not come", i)
		}
		var workers []string
		_, _, infos := rt.state()
		for name := range infos {
			workers = append(workers, name)
		}
		slices.Sort(workers)
		stub, _ := rt.pools[0].stub(workers[0])
		if drains := stub != nil && stub.Drain; !slices.Equal(workers, step.workers) || drains != step.drains {
			t.Errorf("at question %d there are %q, and the first drains: %t; want %q, %t", i, workers, drains, step.workers, step.drains)
		}
		if q.index != step.index || q.wait != step.wait {
			t.Errorf("question %d is for what is newer than %q, within %q; want %q, %q", i, q.index, q.wait, step.index, step.wait)
		}
		q.answer <- step.answer
	}
}

// lines are what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// TestWarns has the plugin say at its start, before anything runs, which of its workers isolate nothing.
func TestWarns(t *testing.T) {
	block := Config{
		Address: "http://127.0.0.1:1", Namespace: "default", Image: "busybox:1", Privileged: "deny", Architecture: "amd64", ShimPath: "/shim",
		CPU: 10, Memory: 64 << 20, MaxConnections: 32, Rate: 100, PlaceTimeout: patient, StartTimeout: patient, RequestTimeout: patient,
	}
	blocks := map[string]Config{}
	for _, driver := range []string{"docker", "exec", "raw_exec"} {
		c := block
		if c.Driver = driver; driver != "docker" {
			c.Image = ""
		}
		blocks["on-"+strings.ReplaceAll(driver, "_", "-")] = c
	}
	var log lines
	rt, err := New(blocks, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	var warned []string
	for line := range strings.Lines(log.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "isolates nothing") {
			warned = append(warned, line)
		}
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "worker=on-raw-exec") || !strings.Contains(warned[0], "raw_exec") || !strings.Contains(warned[0], "development") {
		t.Errorf("of drivers that isolate nothing it says %q; want that on-raw-exec has raw_exec, for development", warned)
	}
}

// TestOnce has the policies of a container's job, with each driver: what Nomad started once it starts never again, here or elsewhere.
func TestOnce(t *testing.T) {
	for _, driver := range []string{"docker", "exec", "raw_exec"} {
		n := &node{name: "pool/1", id: "12345678-1", pool: &pool{name: "pool", c: Config{Driver: driver, ShimPath: "/shim", CPU: 1, Memory: 1}}}
		job, err := n.job(sdk.ContainerSpec{ID: "c", Token: "t"}, &holding{})
		if err != nil || len(job.TaskGroups) != 1 || len(job.TaskGroups[0].Tasks) != 1 {
			t.Fatalf("%s: %+v, %v", driver, job, err)
		}
		job.Canonicalize() // as Nomad fills in what is left out
		g := job.TaskGroups[0]
		if p := g.RestartPolicy; *p.Attempts != 0 || *p.Mode != api.RestartPolicyModeFail {
			t.Errorf("%s: its group is restarted %d times, then: %s", driver, *p.Attempts, *p.Mode)
		}
		if p := g.Tasks[0].RestartPolicy; *p.Attempts != 0 || *p.Mode != api.RestartPolicyModeFail {
			t.Errorf("%s: its task is restarted %d times, then: %s", driver, *p.Attempts, *p.Mode)
		}
		if p := g.ReschedulePolicy; *p.Attempts != 0 || *p.Unlimited {
			t.Errorf("%s: it is placed again %d times, for ever: %t", driver, *p.Attempts, *p.Unlimited)
		}
		if *g.Count != 1 || *job.Type != api.JobTypeBatch {
			t.Errorf("%s: a %s job of %d", driver, *job.Type, *g.Count)
		}
	}
}
