package host

import (
	"context"
	"errors"
	"fmt"
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

// nodes tells workers as a test wants them.
type nodes struct {
	events chan sdk.WorkerEvent
}

func newNodes() *nodes { return &nodes{events: make(chan sdk.WorkerEvent)} }

func (n *nodes) workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	for {
		select {
		case e := <-n.events:
			if err := emit(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *nodes) tell(kind sdk.WorkerEventKind, names ...string) {
	e := sdk.WorkerEvent{Kind: kind}
	for _, name := range names {
		e.Workers = append(e.Workers, sdk.WorkerInfo{Name: name, Platform: "memory"})
	}
	n.events <- e
}

// A node that its plugin takes back is forgotten after a while: what ran there is lost, its place and its records are free. What is
// remembered of its containers can still be asked for, by the next host too, and a node of that name that comes later is a new one.
func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	n, dir := newNodes(), t.TempDir()
	cfg := testConfig("m")
	cfg.Timing.Prune, cfg.Timing.WorkerGone, cfg.Timing.Stalled = 100*time.Millisecond, time.Second, 100*time.Millisecond
	o := &hooked{Runtime: newMemory(t, "m/1", "m/2"), workers: n.workers}
	opts := Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": o}}
	h, err := Open(t.Context(), cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	n.tell(sdk.WorkerSnapshot, "m/1")
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	p := script(t, h, "owner", "sleep 1000")
	testkit.Until(t, "it is followed, by a call that nothing on the worker ends", func() bool {
		return o.calls("follow") > 0
	})
	if err := h.CordonWorker(t.Context(), "m/1", ""); err != nil {
		t.Fatal(err)
	}
	n.tell(sdk.WorkerRemove, "m/1")
	testkit.Until(t, "the node is forgotten", func() bool { return len(h.Workers()) == 0 })
	if row := containerRows(t, h)[0]; row.State != lifecycle.ContainerLost {
		t.Errorf("its container is %s", row.State)
	}
	if l, held := h.index.Held("owner"); held {
		t.Errorf("lease %+v is left", l)
	}
	var rows []store.Worker
	if err := h.store.View(t.Context(), func(tx *store.Tx) (err error) { rows, err = tx.Workers(); return err }); err != nil || len(rows) > 0 {
		t.Errorf("rows of workers are left: %+v, %v", rows, err)
	}
	var lost *LostError
	if out := waitOutcome(t, p); !errors.As(out.Err, &lost) {
		t.Errorf("its process: %+v", out)
	}
	n.tell(sdk.WorkerUpsert, "m/2")
	testkit.Until(t, "another node comes", func() bool { ws := h.Workers(); return len(ws) == 1 && ws[0].Up })
	n.tell(sdk.WorkerUpsert, "m/1")
	testkit.Until(t, "the node is there again", func() bool { return len(h.Workers()) == 2 && h.Workers()[0].Up })
	if r := reportOf(t, h, "m/1"); r.State != pool.Running {
		t.Errorf("what was wanted of the old node is wanted of the new one: %+v", r)
	}
	n.tell(sdk.WorkerRemove, "m/1")
	testkit.Until(t, "the node is forgotten again", func() bool { return len(h.Workers()) == 1 })
	closeTestHost(t, h)

	h2, err := Open(t.Context(), cfg, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h2) })
	n.tell(sdk.WorkerSnapshot, "m/2")
	if err := h2.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	p, err = tryScript(t, h2, "owner", "sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if out := waitOutcome(t, p); !errors.As(out.Err, &lost) || lost.Worker != "m/1" {
		t.Errorf("its process after a restart: %+v", out)
	}
}

// A node that left while no host was there is forgotten, too, with what ran on it.
func TestNodeLeftMeanwhile(t *testing.T) {
	t.Parallel()
	n, dir := newNodes(), t.TempDir()
	cfg := testConfig("m")
	cfg.Timing.Prune, cfg.Timing.Stalled = 100*time.Millisecond, 100*time.Millisecond
	opts := Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": &hooked{Runtime: newMemory(t, "m", "m/1", "m/2"), workers: n.workers}}}
	open := func(nodes ...string) *Host {
		h, err := Open(t.Context(), cfg, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeTestHost(t, h) })
		n.tell(sdk.WorkerSnapshot, nodes...)
		if err := h.Ready(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := open("m/1", "m/2")
	script(t, h, "owner", "sleep 1000")
	placed := containerRows(t, h)[0].Worker
	closeTestHost(t, h)

	h = open("m") // the plugin cannot ask its cluster
	if reportOf(t, h, placed); h.workers[placed].passing() {
		t.Error("a node is taken for gone though nobody knows")
	}
	closeTestHost(t, h)

	h = open(map[string]string{"m/1": "m/2", "m/2": "m/1"}[placed])
	testkit.Until(t, "the node is forgotten", func() bool { return len(h.Workers()) == 1 })
	if row := containerRows(t, h)[0]; row.State != lifecycle.ContainerLost {
		t.Errorf("its container is %s", row.State)
	}
}

// A plugin that tells ever other nodes, and takes them back, costs the host no memory: what is forgotten is gone, and of what is not yet there are only
// so many.
func TestNodesWithoutEnd(t *testing.T) {
	t.Parallel()
	n := newNodes()
	cfg := testConfig("m")
	cfg.Timing.Prune, cfg.Timing.Stalled = 50*time.Millisecond, 50*time.Millisecond
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("m/%d", i)
	}
	cfg.Workers[0].Ephemeral = true
	var away atomic.Bool
	rt := &hooked{Runtime: newMemory(t, names...), workers: n.workers, status: func(_ context.Context, _ int, s *sdk.Status) error {
		if away.Load() {
			return sdk.NewUnavailable(nil, "away")
		}
		return nil
	}}
	h, err := Open(t.Context(), cfg, Options{StateDir: t.TempDir(), maxWorkers: 30, Runtimes: map[string]sdk.Runtime{"memory": rt}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	n.tell(sdk.WorkerSnapshot)
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	entries := func() (workers, reconcilers int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.workers), len(h.reconcilers)
	}
	for _, name := range names {
		n.tell(sdk.WorkerUpsert, name)
		n.tell(sdk.WorkerRemove, name)
	}
	testkit.Until(t, "only the block's own is known", func() bool {
		workers, reconcilers := entries()
		return workers == 1 && reconcilers <= 1
	})

	// Those that are away for long before they are taken back are forgotten first.
	away.Store(true)
	for _, name := range names {
		n.tell(sdk.WorkerUpsert, name)
	}
	testkit.Until(t, "all are forgotten", func() bool { return len(h.Workers()) == 0 })
	for _, name := range names {
		n.tell(sdk.WorkerRemove, name)
	}
	testkit.Until(t, "only the block's own is known again", func() bool {
		workers, reconcilers := entries()
		return workers == 1 && reconcilers <= 1
	})

	full := h.newPlugin(h.cfg(), h.plugins[0].cfg)
	for i := range 29 {
		if _, err := full.take(sdk.WorkerInfo{Name: fmt.Sprintf("m/more-%d", i)}); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := full.take(sdk.WorkerInfo{Name: "m/one-more"}); !errors.Is(err, sdk.Internal) {
		t.Errorf("one more is %v", err)
	}
	if _, err := full.take(sdk.WorkerInfo{Name: "m/more-1"}); err != nil {
		t.Errorf("one that is known is %v", err)
	}
}

// A worker that comes back is waited for, however long its plugin knew it away; one that is not ephemeral is never forgotten.
func TestStalledAndBack(t *testing.T) {
	t.Parallel()
	away := make(chan bool, 1)
	away <- false
	o := &hooked{Runtime: newMemory(t, "m"), status: func(_ context.Context, _ int, s *sdk.Status) error {
		is := <-away
		away <- is
		if is {
			s.Health, s.Reason = sdk.Away, "unplugged"
		}
		return nil
	}}
	set := func(is bool) { <-away; away <- is }
	cfg := testConfig("m")
	cfg.Timing.Prune, cfg.Timing.Stalled = time.Millisecond, 50*time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	set(true)
	w.lookNow()
	testkit.Until(t, "the worker stalls", func() bool { return h.index.Workers()[0].State == pool.Stalled })
	if r := reportOf(t, h, "m"); r.State != pool.Stalled || r.Reason == "" {
		t.Errorf("%+v", r)
	}
	waits, made := make(chan string, 1), make(chan error, 1)
	go func() {
		c, err := h.Container(testkit.Context(t), "owner", ContainerRequest{Observe: func(e Event) {
			if e.Kind == EventWaiting && e.Message != "" {
				waits <- e.Message
			}
		}})
		if err == nil {
			err = c.Destroy(testkit.Context(t))
		}
		made <- err
	}()
	select {
	case why := <-waits:
		if !strings.Contains(why, "unplugged") || !strings.Contains(why, "it is waited for") {
			t.Errorf("it waits since %q", why)
		}
	case err := <-made:
		t.Fatalf("on a stalled worker: %v", err)
	}
	set(false)
	w.lookNow()
	if err := <-made; err != nil {
		t.Errorf("once it was back: %v", err)
	}

	set(true)
	w.lookNow()
	testkit.Until(t, "the worker stalls again", func() bool { return h.index.Workers()[0].State == pool.Stalled })
	go func() {
		_, err := h.Container(testkit.Context(t), "other", ContainerRequest{})
		made <- err
	}()
	testkit.Until(t, "it waits", func() bool { return len(h.queue.Waiting()) == 1 })
	w.mu.Lock()
	w.since = w.since.Add(-w.graces.Load().gone) // so long has it been away
	w.mu.Unlock()
	err = <-made
	if none, ok := errors.AsType[*pool.NoWorkerError](err); !ok || none.Reasons[0].Reason != pool.NotRunning {
		t.Errorf("on a worker that was given up: %v", err)
	}
}

// What a worker can do may change: placement follows, and who waited for it in vain is told at once.
func TestChangedFeatures(t *testing.T) {
	t.Parallel()
	features := make(chan []sdk.Feature, 1)
	features <- nil
	o := &hooked{Runtime: newMemory(t, "m"), status: func(_ context.Context, _ int, s *sdk.Status) error {
		has := <-features
		features <- has
		s.Features = append(s.Features, has...)
		return nil
	}}
	set := func(f ...sdk.Feature) { <-features; features <- f }
	cfg := testConfig("m")
	cfg.Workers[0].Limits.Containers = 1
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	asks := ContainerRequest{Features: []sdk.Feature{"some.new"}}
	_, err = h.Container(t.Context(), "early", asks)
	var none *pool.NoWorkerError
	if !errors.As(err, &none) || none.Reasons[0].Reason != pool.NoFeature {
		t.Errorf("without the feature: %v", err)
	}
	set("some.new")
	w.lookNow()
	testkit.Until(t, "the feature is there", func() bool { e, err := h.ExplainRequest(t.Context(), asks); return err == nil && e.Worker == "m" })
	c, err := h.Container(t.Context(), "first", asks)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := h.Container(t.Context(), "second", asks)
		waited <- err
	}()
	testkit.Until(t, "the second waits", func() bool { return len(h.queue.Waiting()) == 1 })
	set()
	w.lookNow()
	if err := <-waited; !errors.As(err, &none) || none.Reasons[0].Reason != pool.NoFeature {
		t.Errorf("when the feature goes: %v", err)
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}
