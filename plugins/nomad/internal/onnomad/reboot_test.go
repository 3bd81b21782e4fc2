//go:build linux

package onnomad

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// TestReboot has a node's machine rebooted while a step runs there. Nomad begins the container's task anew, in the allocation that it has: nothing may run in
// that, or the step would run twice.
func TestReboot(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	a := nomadtest.Start(t, nomadtest.Options{})
	for name, lost := range map[string][]string{
		"all-kept": nil, "allocations-lost": {"data/alloc"}, "state-lost": {"data/alloc", "data/client/state.db"},
	} { // which are on a disk that does not outlive the machine
		t.Run(name, func(t *testing.T) { testReboot(t, a, name, lost) })
	}
}

func testReboot(t *testing.T, a *nomadtest.Agent, name string, lost []string) {
	unchanged(t, a)
	ctx := testkit.Context(t)
	c := settings(a, nomadtest.RawExec)
	w := workerOn(t, open(t, c), a)
	id := makeContainer(t, w, name)
	file := t.TempDir() + "/runs"
	p := sh("p", "echo run >>"+file+"; echo run; exec sleep 1000")
	if err := w.StartProcess(ctx, id, p); err != nil {
		t.Fatal(err)
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	if _, _, err := follow(following, w, id, p.ID, 0, func(string) { stop() }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	forgotten := slices.Contains(lost, "data/client/state.db")
	if forgotten { // what Nomad's servers do not know yet, nobody knows then
		reported(t, a, id)
	}
	if err := a.Reboot(ctx, lost...); err != nil {
		t.Fatal(err)
	}
	for who, w := range map[string]sdk.Worker{"the same plugin": w, "another": workerOn(t, open(t, c), a)} {
		// Nomad tells of what it found some moments after it has begun the task anew. Until then a command may get in before that task ends and read the
		// first keeper's records, or another plugin takes the container for half made. Nothing starts in it, whenever one asks.
		says(t, settled(ctx, func() error { return w.StartProcess(ctx, id, p) }), sdk.FailedPrecondition, "")
		c := gone(t, w, id)
		if c.Reason == "" || forgotten && !strings.Contains(c.Reason, "data_dir") {
			t.Errorf("%s: it is listed as gone for %q; want a reason, and of an agent without records that it names data_dir", who, c.Reason)
		}
		says(t, settled(ctx, func() error { return w.StartProcess(ctx, id, p) }), sdk.FailedPrecondition, sdk.ReasonDead)
		says(t, settled(ctx, func() error { _, err := w.ListProcesses(ctx, id); return err }), sdk.FailedPrecondition, sdk.ReasonRecordLost)
	}
	if ran := readFile(t, file); ran != "run\n" {
		t.Errorf("what ran: %q", ran)
	}
}

// TestRebootedStore has a machine rebooted whose agent then knows nothing of the node's store, either. Nomad would call that running for ever and not start it: the
// plugin has it started, and volumes are there.
func TestRebootedStore(t *testing.T) {
	testkit.Soak(t, "an agent of its own")
	a := nomadtest.Start(t, nomadtest.Options{HostVolumes: []string{hostVolume}})
	ctx := testkit.Context(t)
	c := withStore(a)
	w := workerOn(t, open(t, c), a)
	incarnation := healthy(t, w).VolumeIncarnation
	check(t, w.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t", Labels: spec("").Labels}))
	running(t, a, "slipway.store."+hostVolume)
	check(t, a.Reboot(ctx, "data/alloc", "data/client/state.db"))
	for who, w := range map[string]sdk.Worker{"the same plugin": w, "another": workerOn(t, open(t, c), a)} {
		if s := healthy(t, w); s.VolumeIncarnation != incarnation {
			t.Errorf("%s: its store is %q, that of before was %q", who, s.VolumeIncarnation, incarnation)
		}
		var there []sdk.VolumeID
		err := settled(ctx, func() error {
			there = nil
			return w.ListVolumes(ctx, sdk.Filter{}, func(v sdk.VolumeInfo) error { there = append(there, v.ID); return nil })
		})
		if err != nil || !slices.Equal(there, []sdk.VolumeID{"v"}) {
			t.Errorf("%s: there are the volumes %q, error %v", who, there, err)
		}
	}
	if err := settled(ctx, func() error { return w.DestroyVolume(ctx, "v") }); err != nil {
		t.Error(err)
	}
}

// gone waits until a worker lists a container as gone.
func gone(t *testing.T, w sdk.Worker, id sdk.ContainerID) (c sdk.ContainerInfo) {
	t.Helper()
	ctx := testkit.Context(t)
	testkit.Until(t, fmt.Sprintf("container %s is listed as gone", id), func() bool {
		check(t, settled(ctx, func() (err error) { c, err = listed(ctx, w, id); return err }))
		return c.State == sdk.ContainerGone
	})
	return c
}

// reported waits until Nomad's servers know that a container's task has started, which a node tells them within a second.
func reported(t *testing.T, a *nomadtest.Agent, id sdk.ContainerID) {
	t.Helper()
	running(t, a, "slipway-"+string(id))
}

// running waits until Nomad's servers call the one allocation of a job running.
func running(t *testing.T, a *nomadtest.Agent, job string) {
	t.Helper()
	ctx := testkit.Context(t)
	testkit.Until(t, fmt.Sprintf("Nomad calls %s running", job), func() bool {
		all, _, err := a.Client().Jobs().Allocations(job, false, new(api.QueryOptions).WithContext(ctx))
		check(t, err)
		return len(all) == 1 && all[0].ClientStatus == api.AllocClientStatusRunning
	})
}
