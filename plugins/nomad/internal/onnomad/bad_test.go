//go:build linux

package onnomad

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// badBlock has settings that are in order, and wrong for this cluster.
func (s *two) badBlock(t *testing.T) {
	unchanged(t, s.server)
	closed := httptest.NewServer(nil)
	closed.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, test := range map[string]struct {
		change func(*nomad.Config)
		want   []string
	}{
		"nobody there":  {func(c *nomad.Config) { c.Address = closed.URL }, []string{closed.URL, "refused"}},
		"another there": {func(c *nomad.Config) { c.Address = other.URL }, []string{other.URL, "404"}},
		"no answer": {func(c *nomad.Config) { c.Address, c.RequestTimeout = "http://"+silent.Addr().String(), 1e9 },
			[]string{silent.Addr().String(), "no answer within"}},
		"pool":   {func(c *nomad.Config) { c.Pool = "gpu" }, []string{`the pool "gpu"`, "default", "none of the 2 nodes"}},
		"class":  {func(c *nomad.Config) { c.Class = "third" }, []string{`the class "third"`, `"second"`}},
		"driver": {func(c *nomad.Config) { c.Driver, c.Image = nomadtest.Docker, "busybox:1" }, []string{"without the driver docker"}},
		"region": {func(c *nomad.Config) { c.Region = "mars" }, []string{"No path to region"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := settings(s.server, nomadtest.RawExec)
			test.change(&c)
			w := awayWorker(t, open(t, c))
			status, err := w.Status(testkit.Context(t))
			if err != nil || status.Health != sdk.Away {
				t.Errorf("%+v, %v", status, err)
			}
			for _, want := range test.want {
				if !strings.Contains(status.Reason, want) {
					t.Errorf("%s; want it to say %q", status.Reason, want)
				}
			}
			err = w.CreateContainer(testkit.Context(t), spec("nowhere"), nil)
			says(t, err, sdk.Unavailable, "", test.want...)
		})
	}
	t.Run("namespace", func(t *testing.T) {
		c := settings(s.server, nomadtest.RawExec)
		c.Namespace = "nowhere"
		w := workerOn(t, open(t, c), s.nodes[0])
		says(t, w.CreateContainer(testkit.Context(t), spec("nowhere"), nil), sdk.Invalid, "", `"nowhere"`)
	})
}

// others have jobs and containers on the cluster, too.
func (s *two) others(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	w := s.w[0]
	jobs := s.server.Client().Jobs()
	foreign := api.NewBatchJob("slipway-taken", "slipway-taken", "global", 50)
	foreign.AddDatacenter("*").AddTaskGroup(api.NewTaskGroup("g", 1).AddTask(api.NewTask("t", nomadtest.RawExec).SetConfig("command", "/bin/sleep").SetConfig("args", []string{"1000"})))
	if _, _, err := jobs.Register(foreign, new(api.WriteOptions).WithContext(ctx)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := jobs.Deregister("slipway-taken", true, nil); err != nil {
			t.Error(err)
		}
		s.ended(t, "slipway-taken")
	})
	says(t, w.CreateContainer(ctx, spec("taken"), nil), sdk.AlreadyExists, "", "taken")
	if err := w.DestroyContainer(ctx, "taken"); err != nil {
		t.Errorf("destroying what is not there: %v", err)
	}
	if _, err := w.ListProcesses(ctx, "taken"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("its processes: %v", err)
	}
	if job, _, err := jobs.Info("slipway-taken", new(api.QueryOptions).WithContext(ctx)); err != nil || *job.Stop {
		t.Errorf("a job that is another's was touched: %v", err)
	}

	// Another installation's host has the same plugin on the same cluster.
	rt := open(t, settings(s.nodes[0], nomadtest.RawExec))
	second := workerOn(t, rt, s.nodes[0])
	makeContainer(t, w, "ours")
	theirs := spec("theirs")
	theirs.Labels[sdk.LabelInstallation] = "there"
	makeSpec(t, second, theirs)
	for installation, want := range map[string][]string{"here": {"ours"}, "there": {"theirs"}, "nowhere": nil} {
		var listed []string
		f := sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: installation}}
		if err := w.ListContainers(ctx, f, func(c sdk.ContainerInfo) error { listed = append(listed, string(c.ID)); return nil }); err != nil || !slices.Equal(listed, want) {
			t.Errorf("of %q there are %q, error %v; want %q", installation, listed, err, want)
		}
	}
	// The id is taken for all of them.
	says(t, second.CreateContainer(ctx, sdk.ContainerSpec{ID: "ours", Token: "u"}, nil), sdk.AlreadyExists, "")
}

// noLeader asks a node's agent while its servers are away.
func (s *two) noLeader(t *testing.T) {
	unchanged(t, s.server)
	ctx := testkit.Context(t)
	c := settings(s.nodes[0], nomadtest.RawExec)
	w := workerOn(t, open(t, c), s.nodes[0])
	id := makeContainer(t, w, "kept")
	if err := s.server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	s.placement(t, w, sdk.Away, s.nodes[0].Address())
	says(t, w.CreateContainer(ctx, spec("nobody"), nil), sdk.Unavailable, "", s.nodes[0].Address())
	if err := s.server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	s.placement(t, w, sdk.Healthy, "")
	if _, exit, err := run(ctx, w, id, sh("p", "exit 9")); err != nil || exit.Code != 9 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
}

// ended waits until nothing of a job runs.
func (s *two) ended(t *testing.T, job string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
	defer cancel()
	for index := uint64(1); ; {
		allocs, meta, err := s.server.Client().Allocations().List((&api.QueryOptions{WaitIndex: index}).WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(allocs, func(a *api.AllocationListStub) bool {
			return a.JobID == job && (a.ClientStatus == api.AllocClientStatusPending || a.ClientStatus == api.AllocClientStatusRunning)
		}) {
			return
		}
		index = meta.LastIndex
	}
}
