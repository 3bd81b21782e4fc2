package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
)

// One container whose record cannot be read does not keep a whole worker away after a restart of the host.
func TestOneBadRecordKeepsNoWorkerAway(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	script(t, h, "owner", "sleep 0.5; echo ran")
	rows := containerRows(t, h)
	// The state in which a kill between sending the start and noting it leaves the row.
	closeTestHost(t, h)
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, n int, real func() error) error {
		if call == "list-processes" && id == rows[0].ID {
			return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, id, "its scratch volume is gone")
		}
		return real()
	}}
	h = openUnready(t, o, dir, nil, "m")
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the worker is up", func() bool { return h.Workers()[0].Up })
}

// One container that cannot be destroyed neither.
func TestOneStuckDestroyKeepsNoWorkerAway(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, n int, real func() error) error {
		if call == "destroy" {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}
	h := openHost(t, o, Options{StateDir: dir}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err == nil {
		t.Fatal("destroyed")
	}
	closeTestHost(t, h)
	h = openUnready(t, o, dir, nil, "m")
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the worker is up", func() bool { return h.Workers()[0].Up })
}

// What could not be destroyed while a worker was away within one session of its plugin is destroyed when it is back, with its volumes.
func TestLeftoversAfterAway(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var away atomic.Bool
	o := &hooked{Runtime: rt, status: func(_ context.Context, _ int, s *sdk.Status) error {
		if away.Load() {
			s.Health, s.Reason = sdk.Away, "unplugged"
		}
		return nil
	}, hook: func(_ context.Context, call, _ string, _ int, real func() error) error {
		if away.Load() && call != "follow" {
			return errAway
		}
		return real()
	}}
	cfg := testConfig("m")
	cfg.Timing.WorkerGone = 300 * time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	ctx, cancel := context.WithCancel(t.Context())
	res, err := h.Run(ctx, RunRequest{Grace: 100 * time.Millisecond, Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo here; sleep 100"]
    }
  }
}`), Events: func(e Event) {
		if e.Kind == EventStarted {
			go func() { awaitText(t, e.Process, "here"); away.Store(true); cancel() }()
		}
	}})
	t.Log(states(res), err)
	away.Store(false)
	w, _ := h.worker("m")
	w.lookNow()
	testkit.Until(t, "nothing is left on the worker", func() bool { return len(onWorker(t, rt, "m")) == 0 })
}

// The lease of a lost container ends.
func TestLeaseOfLostContainer(t *testing.T) {
	t.Parallel()
	var reborn atomic.Bool
	o := &hooked{Runtime: newMemory(t, "m"), status: func(_ context.Context, _ int, s *sdk.Status) error {
		if reborn.Load() {
			s.ContainerIncarnation += "-reborn"
		}
		return nil
	}}
	h := openHost(t, o, Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	reborn.Store(true)
	w, _ := h.worker("m")
	w.lookNow()
	testkit.Until(t, "container lost", func() bool { return containerRows(t, h)[0].State == lifecycle.ContainerLost })
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l, ok := h.index.Held("owner"); ok {
		t.Errorf("lease %+v is left", l)
	}
}

// A worker that is taken away while it is looked at is not placed on afterwards.
func TestRemovedWhileLookedAt(t *testing.T) {
	t.Parallel()
	looked := make(chan struct{})
	events := make(chan sdk.WorkerEvent, 4)
	applied := make(chan struct{}, 4)
	info := []sdk.WorkerInfo{{Name: "m", Platform: "memory"}}
	o := &hooked{Runtime: newMemory(t, "m"), status: func(ctx context.Context, n int, _ *sdk.Status) error {
		if n == 2 {
			close(looked)
			<-ctx.Done() // it is being taken away
		}
		return nil
	}, workers: func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
		if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: info}); err != nil {
			return err
		}
		for {
			select {
			case e := <-events:
				if err := emit(e); err != nil {
					return err
				}
				applied <- struct{}{}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}}
	h := openHost(t, o, Options{}, "m")
	w, _ := h.worker("m")
	w.lookNow()
	<-looked
	events <- sdk.WorkerEvent{Kind: sdk.WorkerRemove, Workers: info}
	<-applied
	testkit.Until(t, "the monitor has ended", func() bool { return !h.Workers()[0].Up })
	if ws := h.index.Workers(); len(ws) > 0 {
		t.Errorf("placement still has %+v", ws)
	}
}

// A plugin that fails to tell its workers does not hold up Ready for ever.
func TestReadyThoughWorkersFails(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m"), workers: func(context.Context, func(sdk.WorkerEvent) error) error {
		return sdk.NewUnavailable(nil, "nomad is away")
	}}
	h, err := Open(t.Context(), testConfig("m"), Options{StateDir: t.TempDir(), Runtimes: map[string]sdk.Runtime{"memory": o}, told: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Error(err)
	}
}

// A worker that says it is well and refuses a create for ever does not hold a step for ever: another worker takes it.
func TestUnavailableForEver(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "a", "b"), hook: func(_ context.Context, call, w string, _ int, real func() error) error {
		if call == "create" && w == "a" {
			return errAway
		}
		return real()
	}}
	cfg := testConfig("a", "b")
	cfg.Timing.WorkerGone = time.Second
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	ctx := testkit.Context(t)
	if err := h.index.Acquire(pool.Lease{Owner: "owner", Worker: "a"}); err != nil { // so that a is tried first
		t.Fatal(err)
	}
	c, err := h.Container(ctx, "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Worker() != "b" {
		t.Errorf("on %s", c.Worker())
	}
}

// A resumed run whose worker is not known yet, for its node is still away, waits for it.
func TestResumeBeforeNodeIsBack(t *testing.T) {
	t.Parallel()
	rt, dir := memory.New([]string{"m/node"}, memory.Options{}), t.TempDir()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
		defer cancel()
		rt.Close(ctx)
	})
	info := []sdk.WorkerInfo{{Name: "m/node", Platform: "memory"}}
	later := func(d time.Duration) func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
		return func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
			if d > 0 {
				emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot})
				<-time.After(d)
				emit(sdk.WorkerEvent{Kind: sdk.WorkerUpsert, Workers: info})
			} else {
				emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: info})
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	h := openHost(t, &hooked{Runtime: rt, workers: later(0)}, Options{StateDir: dir}, "m")
	script(t, h, "owner", "sleep 1; echo ran")
	closeTestHost(t, h)
	h = openHost(t, &hooked{Runtime: rt, workers: later(500 * time.Millisecond)}, Options{StateDir: dir}, "m")
	p, err := tryScript(t, h, "owner", "sleep 1; echo ran")
	if err != nil {
		t.Fatal(err)
	}
	if got := say(waitOutcome(t, p)); got != "exit 0" {
		t.Error(got)
	}
}

// A resumed run whose worker stays away is lost, not errored, and its container goes when the worker comes back after all.
func TestResumeOnGoneWorker(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var away atomic.Bool
	o := &hooked{Runtime: rt, status: func(_ context.Context, _ int, s *sdk.Status) error {
		if away.Load() {
			s.Health, s.Reason = sdk.Away, "unplugged"
		}
		return nil
	}}
	h := openHost(t, o, Options{StateDir: dir}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    run {
      path = "sh"
      args = ["-c", "sleep 100"]
    }
  }
}`)}
	req.Events = func(e Event) {
		if e.Kind == EventStarted {
			go h.cancel() // the host ends
		}
	}
	if _, err := h.Run(t.Context(), req); err == nil {
		t.Fatal("no end")
	}
	closeTestHost(t, h)
	away.Store(true)
	cfg := testConfig("m")
	cfg.Timing.WorkerGone = 500 * time.Millisecond
	h2 := openConfig(t, cfg, Options{StateDir: dir, Runtimes: map[string]sdk.Runtime{"memory": o}})
	req.Events = nil
	res, err := h2.Run(t.Context(), req)
	if res == nil || res.Steps[0].State != StepLost {
		t.Errorf("%v %v", res, err)
	}
	away.Store(false)
	w, _ := h2.worker("m")
	w.lookNow()
	testkit.Until(t, "nothing is left", func() bool { return len(onWorker(t, rt, "m")) == 0 })
}

// TestSilentPlugin has a plugin that runs and never tells its workers: whoever waits for the host is told why, and once it tells them
// they are used.
func TestSilentPlugin(t *testing.T) {
	t.Parallel()
	rt, speak := newMemory(t, "m"), make(chan struct{})
	o := &hooked{Runtime: rt, workers: func(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
		select {
		case <-speak:
			return rt.Workers(ctx, emit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	h, err := Open(t.Context(), testConfig("m"), Options{StateDir: t.TempDir(), Runtimes: map[string]sdk.Runtime{"memory": o}, told: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeTestHost(t, h) })
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	const why = `plugin "memory" has not told which workers it has for 1ms: look in its log`
	_, err = h.Container(t.Context(), "early", ContainerRequest{})
	if _, none := errors.AsType[*pool.NoWorkerError](err); !none || !strings.Contains(err.Error(), why) {
		t.Errorf("a container before it has told anything: %v", err)
	}
	close(speak)
	testkit.Until(t, "the worker is there", func() bool { return h.Workers()[0].Up && len(h.index.Workers()) == 1 })
	if p := script(t, h, "late", "exit 3"); waitOutcome(t, p).Exit.Code != 3 {
		t.Errorf("it ended as %+v", waitOutcome(t, p))
	}
}
