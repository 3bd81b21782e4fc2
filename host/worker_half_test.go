package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

const gardenAway = "garden at tcp://10.0.0.5:7777: not connected"

// halved is a runtime whose workers can be without their containers.
func halved(rt sdk.Runtime, names ...string) (o *hooked, set func(bool)) {
	away := make(chan bool, 1)
	away <- false
	get := func() bool { is := <-away; away <- is; return is }
	o = &hooked{Runtime: rt, status: func(_ context.Context, _ int, s *sdk.Status) error {
		if get() {
			s.Health, s.Reason, s.ContainersAway, s.ContainerIncarnation = sdk.Degraded, gardenAway, true, ""
		}
		return nil
	}}
	o.hook = func(_ context.Context, call, _ string, _ int, real func() error) error {
		switch call {
		case "create", "destroy", "start", "follow", "list", "list-processes":
			if get() {
				return sdk.NewUnavailable(nil, gardenAway)
			}
		}
		return real()
	}
	return o, func(is bool) { <-away; away <- is }
}

// A worker whose containers are away goes on with its volumes, and is open for them all the time. It gets no container meanwhile: who asks for one waits, with the
// reason, and has it once they are back.
func TestContainersAway(t *testing.T) {
	t.Parallel()
	o, set := halved(newMemory(t, "m"))
	h := openHost(t, o, Options{}, "m")
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	p := script(t, h, "runs", "until [ -e /go ]; do sleep 0.02; done; echo done")
	testkit.Until(t, "it is followed", func() bool { return o.calls("follow") > 0 })
	set(true)
	w.lookNow()
	testkit.Until(t, "placement pauses the worker", func() bool { return h.index.Workers()[0].Paused == gardenAway })
	if r := reportOf(t, h, "m"); !r.Up || r.State != pool.Running || r.Status.Health != sdk.Degraded {
		t.Errorf("%+v", r)
	}
	down := w.down // an absence would close it
	waits, made := make(chan string, 10), make(chan error, 1)
	go func() {
		_, err := h.Container(testkit.Context(t), "waits", ContainerRequest{Observe: func(e Event) {
			if e.Kind == EventWaiting && e.Message != "" {
				waits <- e.Message
			}
		}})
		made <- err
	}()
	select {
	case why := <-waits:
		if !strings.Contains(why, gardenAway) {
			t.Errorf("it waits since %q", why)
		}
	case err := <-made:
		t.Fatalf("a container while they are away: %v", err)
	}
	if err := w.call(testkit.Context(t), "list processes", func(ctx context.Context, conn sdk.Worker) error {
		_, err := conn.ListProcesses(ctx, p.container)
		set(false) // when it is asked again
		return err
	}); err != nil {
		t.Errorf("a call on a container, over the absence: %v", err)
	}
	select {
	case <-down:
		t.Error("a call on a container took the volumes away")
	default:
	}
	w.lookNow()
	if err := <-made; err != nil {
		t.Errorf("the container that waited: %v", err)
	}
	if s := h.index.Workers()[0]; s.Paused != "" || s.State != pool.Running {
		t.Errorf("%+v", s)
	}
	for _, owner := range []string{"runs", "waits"} {
		c, err := h.FindContainer(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Destroy(testkit.Context(t)); err != nil {
			t.Error(err)
		}
	}
}

// Without containers for so long, a worker is stalled; for longer still, what ran there is lost. Its volumes are used all the while.
func TestContainersAwayForLong(t *testing.T) {
	t.Parallel()
	o, set := halved(newMemory(t, "m"))
	cfg := testConfig("m")
	cfg.Timing.Stalled, cfg.Timing.WorkerGone = 20*time.Millisecond, 200*time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	p := script(t, h, "runs", "until [ -e /go ]; do sleep 0.02; done")
	testkit.Until(t, "it is followed", func() bool { return o.calls("follow") > 0 })
	set(true)
	w.lookNow()
	testkit.Until(t, "the worker stalls", func() bool { return h.index.Workers()[0].State == pool.Stalled })
	if r := reportOf(t, h, "m"); !r.Up || r.Reason != gardenAway {
		t.Errorf("%+v", r)
	}
	_, err = h.Container(t.Context(), "other", ContainerRequest{})
	if none, ok := errors.AsType[*pool.NoWorkerError](err); !ok || none.Reasons[0].Reason != pool.NotRunning {
		t.Errorf("on a stalled worker: %v", err)
	}
	testkit.Until(t, "following is over", func() bool { return w.containersGone() != nil })
	p.mu.Lock()
	again := p.again
	p.mu.Unlock()
	again() // the connection breaks at last
	outcome := waitOutcome(t, p)
	if lost, ok := errors.AsType[*LostError](outcome.Err); !ok || !strings.Contains(lost.Reason, gardenAway) {
		t.Errorf("%+v", outcome)
	}
	if err := w.call(testkit.Context(t), "list volumes", func(ctx context.Context, conn sdk.Worker) error {
		return conn.ListVolumes(ctx, sdk.Filter{}, func(sdk.VolumeInfo) error { return nil })
	}); err != nil {
		t.Errorf("volumes: %v", err)
	}
	set(false)
	w.lookNow()
	testkit.Until(t, "the worker is back", func() bool { return h.index.Workers()[0].State == pool.Running })
}

// A plugin that dies for good while its containers were away is not waited for.
func TestDeadWithContainersAway(t *testing.T) {
	t.Parallel()
	o, set := halved(newMemory(t, "m"))
	h := openConfig(t, testConfig("m"), Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	set(true)
	w.lookNow()
	testkit.Until(t, "the containers are away", func() bool { return w.withoutContainers() })
	w.setDead(errors.New("its program is gone"))
	h.tellPlacement(w)
	_, err = h.Container(testkit.Context(t), "owner", ContainerRequest{})
	if none, ok := errors.AsType[*pool.NoWorkerError](err); !ok || none.Reasons[0].Reason != pool.NotRunning || !strings.Contains(err.Error(), "its program is gone") {
		t.Errorf("on a worker that will not be back: %v", err)
	}
}
