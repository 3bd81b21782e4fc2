package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// A drain whose end fails goes on, and ends.
func TestDrainOutlivesItsErrors(t *testing.T) {
	t.Parallel()
	var failed atomic.Bool
	rt := newMemory(t, "a", "b")
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"destroy-volume": func(n int, real func() error) error {
		if n == 1 {
			failed.Store(true)
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}}
	h := openHost(t, o, Options{}, "a", "b")
	a := uploaded(t, h, "text")
	if _, err := h.replicate(t.Context(), a, mustWorker(t, h, "a"), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.RetireWorker(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	w := mustWorker(t, h, "a")
	testkit.Until(t, "the worker has retired", func() bool {
		w.lookNow()
		return reportOf(t, h, "a").State == pool.Retired
	})
	if left := onWorker(t, rt, "a"); !failed.Load() || len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestDrainTellsUnderACopy: while something is copied, however long that takes, a drain tells what else it waits for, and how far the copy is.
func TestDrainTellsUnderACopy(t *testing.T) {
	t.Parallel()
	goOn, under := make(chan struct{}), make(chan struct{}, 8)
	var blocks atomic.Bool
	o := &hooked{Runtime: newMemory(t, "a", "b"), hook: func(ctx context.Context, call, id string, _ int, real func() error) error {
		if call == "stream-in" && id == "b" && blocks.Load() {
			under <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "a", "b")
	if err := h.CordonWorker(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	made, err := h.Container(t.Context(), "maker", ContainerRequest{Outputs: []Output{{"o", "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy, err := h.Container(t.Context(), "busy", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	blocks.Store(true)
	if err := errors.Join(h.UncordonWorker(t.Context(), "b"), h.RetireWorker(t.Context(), "a", "")); err != nil {
		t.Fatal(err)
	}
	<-under
	waits := func(what string, f func(Drain) bool) {
		t.Helper()
		testkit.Until(t, what, func() bool { d := reportOf(t, h, "a").Drain; return d != nil && f(*d) })
	}
	waits("both are told", func(d Drain) bool { return slices.Contains(d.Containers, "busy") && len(d.Artifacts) == 1 })
	if err := busy.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits("the copy alone is told", func(d Drain) bool { return len(d.Containers) == 0 && len(d.Artifacts) == 1 && d.Artifacts[0].Why == "" })
	close(goOn)
	if err := h.AwaitDrained(testkit.Context(t), "a", nil); err != nil {
		t.Error(err)
	}
	if len(under) > 0 {
		t.Errorf("what was being copied was copied again, %d times", len(under))
	}
	if left := onWorker(t, o.Runtime, "a"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Orders that could not be kept change nothing: a drain that was under way goes on.
func TestOrdersThatFail(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	c, err := h.Container(t.Context(), "busy", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.LandWorker(t.Context(), "m", "maintenance"); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.CordonWorker(cancelled, "m", ""); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r := reportOf(t, h, "m"); r.State != pool.Landing || r.Reason != "maintenance" {
		t.Errorf("%+v", r)
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	if err := h.AwaitDrained(ctx, "m", nil); err != nil {
		t.Error(err)
	}
}

// A node that is forgotten while it was being emptied is not landed for ever: its drain ends with it, and one of that name that comes later
// is a new one.
func TestForgottenUnderADrain(t *testing.T) {
	t.Parallel()
	n := newNodes()
	cfg := testConfig("m")
	cfg.Timing.Prune, cfg.Timing.Stalled = time.Millisecond, 100*time.Millisecond
	o := &hooked{Runtime: newMemory(t, "m/1"), workers: n.workers}
	h, err := Open(t.Context(), cfg, Options{StateDir: t.TempDir(), Runtimes: map[string]sdk.Runtime{"memory": o}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	n.tell(sdk.WorkerSnapshot, "m/1")
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "busy", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := h.LandWorker(t.Context(), "m/1", ""); err != nil {
		t.Fatal(err)
	}
	w := mustWorker(t, h, "m/1")
	w.ordering.Lock()
	d := w.drain
	w.ordering.Unlock()
	n.tell(sdk.WorkerRemove, "m/1")
	testkit.Until(t, "the node is forgotten", func() bool { return len(h.Workers()) == 0 })
	select {
	case <-d.done:
	case <-testkit.Context(t).Done():
		t.Fatal("its drain goes on")
	}
	var rows []store.Worker
	if err := h.store.View(t.Context(), func(tx *store.Tx) (err error) { rows, err = tx.Workers(); return err }); err != nil || len(rows) > 0 {
		t.Errorf("rows of workers are left: %+v, %v", rows, err)
	}
	n.tell(sdk.WorkerUpsert, "m/1")
	testkit.Until(t, "the node is there again", func() bool { return len(h.Workers()) == 1 && h.Workers()[0].Up })
	if r := reportOf(t, h, "m/1"); r.State != pool.Running {
		t.Errorf("what was wanted of the old node is wanted of the new one: %+v", r)
	}
}

// A worker lands with the containers that are kept for people to look at, and does not retire with them.
func TestKeptContainersHoldUpNoDrain(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "a", "b")
	h := openHost(t, rt, Options{KeepFailed: true}, "a", "b")
	if err := h.CordonWorker(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(t.Context(), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  input "text" {}
  step "s" {
    inputs  = { text = input.text }
    outputs = ["o"]
    run {
      path = "false"
    }
  }
}`), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})}})
	if err != nil || states(res) != "s=failed" {
		t.Fatalf("%s, %v", states(res), err)
	}
	kept := "container " + containerRows(t, h)[0].ID
	ctx := testkit.Context(t)
	told := func(d Drain) {
		if strings.Contains(d.String(), "the end of") {
			t.Errorf("it waits for %s", d)
		}
	}
	if err := errors.Join(h.LandWorker(ctx, "a", ""), h.AwaitDrained(ctx, "a", told)); err != nil {
		t.Fatal(err)
	}
	if left := onWorker(t, rt, "a"); !slices.Contains(left, kept) {
		t.Errorf("after landing there are %q, want %s among them", left, kept)
	}
	if err := errors.Join(h.UncordonWorker(ctx, "b"), h.RetireWorker(ctx, "a", ""), h.AwaitDrained(ctx, "a", nil)); err != nil {
		t.Fatal(err)
	}
	if left := onWorker(t, rt, "a"); len(left) > 0 {
		t.Errorf("left on the retired worker: %q", left)
	}
	if s := stateOf(t, h, RunOwner("r", "s")); s != lifecycle.ContainerDestroyed {
		t.Errorf("its record says %s", s)
	}
}

// What leaves a worker goes to one that stays, though one that comes and goes has it or would take it; where none stays, that is good enough.
func TestRefugeThatStays(t *testing.T) {
	t.Parallel()
	cfg := testConfig("a", "passing", "stays")
	cfg.Workers[1].Ephemeral = true
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "a", "passing", "stays")}})
	w, err := h.worker("passing")
	if err != nil {
		t.Fatal(err)
	}
	onA := ContainerRequest{Exclude: map[string]string{"passing": "for the test", "stays": "for the test"}}
	copied := makeArtifact(t, h, "copied", onA)
	if _, err := h.replicate(t.Context(), copied, w, nil); err != nil {
		t.Fatal(err)
	}
	for _, order := range []error{h.CordonWorker(t.Context(), "stays", ""), h.RetireWorker(t.Context(), "a", ""), h.AwaitDrained(t.Context(), "a", nil)} {
		if order != nil {
			t.Fatal(order)
		}
	}
	if on := volumesOf(t, h, copied.Name); !slices.Equal(on, []string{"passing"}) {
		t.Errorf("where none stays, it is on %q", on)
	}
	for _, order := range []error{h.UncordonWorker(t.Context(), "a"), h.UncordonWorker(t.Context(), "stays")} {
		if order != nil {
			t.Fatal(order)
		}
	}
	both, alone := makeArtifact(t, h, "both", onA), makeArtifact(t, h, "alone", onA)
	if _, err := h.replicate(t.Context(), both, w, nil); err != nil {
		t.Fatal(err)
	}
	for _, order := range []error{h.RetireWorker(t.Context(), "a", ""), h.AwaitDrained(t.Context(), "a", nil)} {
		if order != nil {
			t.Fatal(order)
		}
	}
	if on := volumesOf(t, h, both.Name); !slices.Equal(on, []string{"passing", "stays"}) {
		t.Errorf("what one that comes and goes has is on %q", on)
	}
	if on := volumesOf(t, h, alone.Name); !slices.Equal(on, []string{"stays"}) {
		t.Errorf("what no other has is on %q", on)
	}
}
