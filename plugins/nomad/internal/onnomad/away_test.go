//go:build linux

package onnomad

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestAway takes an agent away, in order and by force, and starts it again: what was made is there.
func TestAway(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	a := nomadtest.Start(t, nomadtest.Options{HostVolumes: []string{"slipway"}})
	c := settings(a, nomadtest.RawExec)
	c.Store = &nomad.StoreConfig{HostVolume: "slipway", Path: program("slipway-store"), CPU: 50}
	rt := open(t, c)
	healthy(t, workerOn(t, rt, a))
	for name, end := range map[string]func(context.Context) error{
		"stopped": a.Stop,
		"killed":  func(context.Context) error { a.Kill(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			target := conformance.InProcess(rt, nameOf(a))
			target.Away = func(ctx context.Context) (func() error, error) {
				return func() error { return a.Restart(testkit.Context(t)) }, end(ctx)
			}
			conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Only: []string{"W29-*"}})
		})
	}
}

// TestReplaced gives an agent another data directory, which makes it another node, while what ran on the old one goes on. The new one has the volumes and takes
// containers, beside the store of the old one; what ran there is lost as soon as Nomad gives that up.
func TestReplaced(t *testing.T) {
	testkit.Soak(t, "several agents")
	server, nodes := nomadtest.StartCluster(t, nomadtest.Options{}, nomadtest.Options{HostVolumes: []string{"slipway"}})
	a := nodes[0]
	c := settings(server, nomadtest.RawExec)
	c.Store = &nomad.StoreConfig{HostVolume: "slipway", Path: program("slipway-store"), CPU: 50}
	rt := open(t, c)
	old := workerOn(t, rt, a)
	ctx := testkit.Context(t)
	incarnation := healthy(t, old).VolumeIncarnation
	if err := old.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t", Labels: spec("").Labels}); err != nil {
		t.Fatal(err)
	}
	with := spec("before")
	with.Mounts = []sdk.Mount{{Volume: "v", Path: "/v"}}
	if err := old.CreateContainer(ctx, with, nil); err != nil {
		t.Fatal(err)
	}
	p := sh("p", "echo begun >/v/file; exec sleep 1000")
	if err := old.StartProcess(ctx, "before", p); err != nil {
		t.Fatal(err)
	}
	id := a.NodeID()
	if err := a.Replace(ctx); err != nil {
		t.Fatal(err)
	}
	if a.NodeID() == id {
		t.Fatalf("it is node %s still", id)
	}
	w := workerOn(t, rt, a)
	if s := healthy(t, w); s.VolumeIncarnation != incarnation {
		t.Errorf("its store is %q, that of before was %q", s.VolumeIncarnation, incarnation)
	}
	with = spec("after")
	with.Mounts = []sdk.Mount{{Volume: "v", Path: "/v"}}
	made := makeSpec(t, w, with)
	if out, exit, err := run(ctx, w, made, sh("p", "cat /v/file; exit 4")); err != nil || exit.Code != 4 || out != "begun\n" {
		t.Errorf("output %q, exit %+v, error %v", out, exit, err)
	}
	if _, err := old.ListProcesses(ctx, "before"); !errors.Is(err, sdk.Unavailable) { // as long as Nomad takes the old node for one that may come back
		t.Errorf("its processes: %v, want unavailable", err)
	}
	if _, _, err := server.Client().Nodes().Purge(id, new(api.QueryOptions).WithContext(ctx)); err != nil {
		t.Fatal(err)
	}
	says(t, settled(ctx, func() error { _, err := old.ListProcesses(ctx, "before"); return err }), sdk.FailedPrecondition, sdk.ReasonRecordLost)
	if c, err := listed(ctx, w, "before"); err != nil || c.ID != "" {
		t.Errorf("whoever does not say whose he is is told of %+v, error %v", c, err)
	}
	var left []sdk.ContainerID
	ours := sdk.Filter{Labels: spec("").Labels}
	if err := w.ListContainers(ctx, ours, func(c sdk.ContainerInfo) error {
		if c.State == sdk.ContainerGone {
			left = append(left, c.ID)
		}
		return nil
	}); err != nil || len(left) != 1 || left[0] != "before" {
		t.Errorf("what is left is %q, error %v", left, err)
	}
	if err := w.DestroyContainer(ctx, "before"); err != nil {
		t.Error(err)
	}
	if _, _, err := server.Client().Jobs().Info("slipway-before", new(api.QueryOptions).WithContext(ctx)); err == nil {
		t.Error("its job is left")
	}
}
