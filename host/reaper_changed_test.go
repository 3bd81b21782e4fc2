package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// What has come into use since it was judged stays, with what it is made of, and is not told as gone.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "m"), newTestClock()
	var h *Host
	var inUse atomic.Bool
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, _ int, real func() error) error {
		if call == "destroy" && id == "stray" { // it goes before all volumes
			h.busy.add("clone")
			inUse.Store(true)
		}
		return real()
	}}
	h = openHost(t, o, Options{clock: clk.clock()}, "m")
	conn, err := rt.Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{sdk.LabelInstallation: h.Installation()}
	if err := conn.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "stray", Token: "t", Labels: labels}, nil); err != nil {
		t.Fatal(err)
	}
	reapAll(t, h) // the container has its grace; the volumes have none
	for _, v := range []struct{ id, parent string }{{"root", ""}, {"clone", "root"}} {
		spec := sdk.VolumeSpec{ID: sdk.VolumeID(v.id), Token: "t", Labels: labels, Clone: sdk.VolumeID(v.parent)}
		if err := errors.Join(conn.CreateVolume(t.Context(), spec), conn.SealVolume(t.Context(), spec.ID)); err != nil {
			t.Fatal(err)
		}
		row := store.Volume{ID: v.id, Worker: "m", Token: "t", State: lifecycle.VolumeSealed, Artifact: "removed", Parent: v.parent, Role: roleReplica}
		if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error { return tx.PutVolume(row) }); err != nil {
			t.Fatal(err)
		}
	}
	clk.pass(h.cfg().Timing.MissingGrace)
	report := reapAll(t, h)
	if !inUse.Load() {
		t.Fatalf("nothing has changed meanwhile: %+v", report.Verdicts)
	}
	left := onWorker(t, rt, "m")
	for id, why := range map[string]string{"clone": "it has changed meanwhile", "root": "volume clone needs it"} {
		v := verdictOf(t, report, id)
		if v.Action != ReapKeep || v.Err != nil || !strings.Contains(v.Reason, why) || !strings.Contains(v.Reason, "its artifact was removed") {
			t.Errorf("%s: %+v", id, v)
		}
		if !slices.Contains(left, "volume "+id) {
			t.Errorf("%s is gone: %q", id, left)
		}
	}
	if v := verdictOf(t, report, "stray"); v.Action != ReapDestroy || v.Err != nil || slices.Contains(left, "container stray") {
		t.Errorf("%+v; left: %q", v, left)
	}
	h.busy.remove("clone")
	reapAll(t, h)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What a sweep does not come to any more is not told as gone.
func TestSweepCutShort(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "m"), newTestClock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		if call == "destroy" {
			cancel()
		}
		return real()
	}}
	h := openHost(t, o, Options{clock: clk.clock()}, "m")
	conn, err := rt.Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{sdk.LabelInstallation: h.Installation()}
	err = errors.Join(conn.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "stray", Token: "t", Labels: labels}, nil),
		conn.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "later", Token: "t", Labels: labels}))
	if err != nil {
		t.Fatal(err)
	}
	reapAll(t, h)
	clk.pass(h.cfg().Timing.MissingGrace)
	report, err := h.Reap(ctx, false)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if v := verdictOf(t, report, "later"); v.Action != ReapDestroy || !errors.Is(v.Err, context.Canceled) {
		t.Errorf("%+v", v)
	}
	if left := onWorker(t, rt, "m"); !slices.Contains(left, "volume later") {
		t.Errorf("left: %q", left)
	}
}

// A container that is destroyed is not lost, though its worker has not listed it for long.
func TestLoseWhatIsGone(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := h.containerByOwner(t.Context(), "owner")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{lifecycle.ContainerDestroying, lifecycle.ContainerDestroyed, lifecycle.ContainerLost} {
		row.State = state
		if err := h.putContainer(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		if err := h.loseContainer(t.Context(), string(c.id), "missing"); !errors.Is(err, errChanged) || stateOf(t, h, "owner") != state {
			t.Errorf("%s: %v; it became %s", state, err, stateOf(t, h, "owner"))
		}
	}
	if err := h.loseContainer(t.Context(), "unknown", "missing"); !errors.Is(err, errChanged) {
		t.Error(err)
	}
}

// What is strange while a worker answers for longer than the grace is not so for the grace: the time from the end of the first answer to the last question counts.
func TestSlowAnswer(t *testing.T) {
	t.Parallel()
	rt, clk := newMemory(t, "m"), newTestClock()
	o := &hooked{Runtime: rt, lists: func(has *listing) {
		if has.ofVolumes { // only the reaper asks for all of them
			clk.pass(testTiming.MissingGrace)
		}
	}}
	h := openHost(t, o, Options{clock: clk.clock()}, "m")
	conn, err := rt.Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	spec := sdk.ContainerSpec{ID: "stray", Token: "t", Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}
	if err := conn.CreateContainer(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if v := verdictOf(t, reapAll(t, h), "stray"); v.Action != ReapKeep {
			t.Fatalf("no time has passed between the answers: %+v", v)
		}
	}
	clk.pass(h.cfg().Timing.MissingGrace)
	if v := verdictOf(t, reapAll(t, h), "stray"); v.Action != ReapDestroy || v.Err != nil {
		t.Errorf("%+v", v)
	}
}
