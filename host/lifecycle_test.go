package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

const copyJob = `
job "j" {
  input "text" {}
  step "s" {
    inputs  = { text = input.text }
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "cp text/a o/a"]
    }
  }
  output "o" { from = step.s.o }
}`

// Close returns though a container is being made on a worker that does not answer.
func TestCloseWhileCreating(t *testing.T) {
	t.Parallel()
	creating := make(chan struct{})
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
		if call == "create" {
			close(creating)
			<-ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	h, err := Open(t.Context(), testConfig("m"), Options{StateDir: t.TempDir(), Runtimes: map[string]sdk.Runtime{"memory": o}})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Container(ctx, "owner", ContainerRequest{}) }()
	<-creating
	closeTestHost(t, h) // though the caller's context lasts
	cancel()
	<-ended
}

// Run ends soon after Close, though its worker went away with the plugin.
func TestRunEndsAfterClose(t *testing.T) {
	t.Parallel()
	starting := make(chan struct{})
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
		if call == "start" {
			if n == 1 {
				close(starting)
			}
			return errAway
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx, RunRequest{Job: parseJob(t, `
job "j" {
  step "s" {
    run { path = "true" }
  }
}`)})
	}()
	<-starting
	closeTestHost(t, h)
	select {
	case <-ended:
	case <-testkit.Context(t).Done():
		t.Error("Run goes on in a closed host")
	}
	cancel()
	<-ended
}

// A worker that is away for a moment in the middle of a stream is a pause of the step, not its end.
func TestStreamBlip(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	for _, at := range []string{"stream-in", "stream-out"} {
		t.Run(at, func(t *testing.T) {
			o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, n int, real func() error) error {
				if call == at && n == 1 {
					return errAway
				}
				return real()
			}}
			h := openHost(t, o, Options{}, "m")
			out := filepath.Join(t.TempDir(), "out")
			res, err := h.Run(t.Context(), RunRequest{Job: parseJob(t, copyJob), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})},
				Outputs: map[string]string{"o": out}})
			if err != nil || !res.Succeeded() {
				t.Fatalf("%v, %v, %v", states(res), res.Steps[0].Err, err)
			}
			if b, err := os.ReadFile(filepath.Join(out, "a")); err != nil || string(b) != "x" {
				t.Errorf("%q %v", b, err)
			}
		})
	}
}

// A stream that moves nothing for longer than a worker may be away ends.
func TestIdleStream(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
		if call == "stream-in" {
			<-ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	cfg := testConfig("m")
	cfg.Timing.WorkerGone = 500 * time.Millisecond
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
	ctx := testkit.Context(t)
	res, _ := h.Run(ctx, RunRequest{Job: parseJob(t, copyJob), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})}})
	if ctx.Err() != nil {
		t.Errorf("a stream that moves nothing has no bound: %s", states(res))
	}
}

// A cancel in the moment in which the container is ready leaves nothing.
func TestCancelAtReady(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	rt := newMemory(t, "m")
	var h *Host
	h = openHost(t, rt, Options{fault: func(at string) {
		if at == "container-ready" {
			cancel()
			testkit.Until(t, "nobody waits for it any more", func() bool {
				h.owners.mu.Lock()
				defer h.owners.mu.Unlock()
				for _, f := range h.owners.by {
					return f.waiting == 0
				}
				return true
			})
		}
	}}, "m")
	res, err := h.Run(ctx, RunRequest{Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run { path = "true" }
  }
}`)})
	t.Log(states(res), err)
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// Nothing is told of a run that has returned, though another goes on with what it began.
func TestNoEventsAfterTheCaller(t *testing.T) {
	t.Parallel()
	streaming, goOn := make(chan struct{}), make(chan struct{})
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
		if call == "stream-in" && n == 1 {
			close(streaming)
			<-goOn
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	a, err := h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	var returned atomic.Bool
	var late atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		h.Container(ctx, "first", ContainerRequest{Inputs: []Input{{a, "text"}}, Observe: func(e Event) {
			if returned.Load() {
				late.Add(1)
			}
		}})
		returned.Store(true)
	})
	<-streaming
	wg.Go(func() {
		if _, err := h.Container(t.Context(), "second", ContainerRequest{Inputs: []Input{{a, "text"}}}); err != nil {
			t.Error(err)
		}
	})
	testkit.Until(t, "the second has joined", func() bool {
		h.replicas.mu.Lock()
		defer h.replicas.mu.Unlock()
		for _, f := range h.replicas.by {
			return f.waiting == 2
		}
		return false
	})
	cancel()
	testkit.Until(t, "the first has left", returned.Load)
	close(goOn)
	wg.Wait()
	if n := late.Load(); n > 0 {
		t.Errorf("%d events after the caller had returned", n)
	}
}

// Two runs of one id at once in one host: neither spoils the other's result.
func TestSameRunTwice(t *testing.T) {
	t.Parallel()
	held, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "sleep 0.5"]
    }
  }
}`)}
	slow := req
	slow.Events = func(e Event) {
		if e.Kind == EventExited {
			once.Do(func() { close(held); <-goOn })
		}
	}
	var slowRes *RunResult
	var slowErr error
	done := make(chan struct{})
	started := make(chan struct{})
	fast := req
	go func() {
		defer close(done)
		prev := slow.Events
		slow.Events = func(e Event) {
			if e.Kind == EventStarted {
				close(started)
			}
			prev(e)
		}
		slowRes, slowErr = h.Run(t.Context(), slow)
	}()
	<-started
	fastDone := make(chan error, 1)
	go func() { _, err := h.Run(t.Context(), fast); fastDone <- err }()
	<-held
	select {
	case err := <-fastDone:
		t.Logf("the other run: %v", err)
	case <-testkit.Context(t).Done():
		t.Error("the other run neither ended nor was refused")
	}
	close(goOn)
	<-done
	if slowErr != nil || slowRes.Steps[0].State != StepSucceeded {
		t.Errorf("%s: %v, %v", states(slowRes), slowRes.Steps[0].Err, slowErr)
	}
}

// A host that ends while a run is being cleaned up leaves a run that has ended, not one whose steps fail when it is resumed.
func TestKilledInEnd(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var h *Host
	closed := make(chan struct{})
	var once sync.Once
	var ending atomic.Bool
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "destroy-volume" && ending.Load() {
			once.Do(func() { go func() { closeTestHost(t, h); close(closed) }() })
			<-h.ctx.Done()
			return errAway
		}
		return real()
	}}
	h = openHost(t, o, Options{StateDir: dir}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run { path = "true" }
  }
}`), Events: func(e Event) {
		if e.Kind == EventFinished {
			ending.Store(true)
		}
	}}
	ctx := testkit.Context(t)
	res, err := h.Run(ctx, req)
	t.Log(states(res), err)
	<-closed
	req.Events = nil
	h2 := openHost(t, rt, Options{StateDir: dir}, "m")
	res, err = h2.Run(t.Context(), req)
	if err != nil || !res.Succeeded() || !res.Recorded {
		t.Errorf("resumed: %+v, %v", res, err)
	}
	destroyed(t, h2, rt)
}

// What a container still uses cannot be removed (rule 9: nothing is destroyed that has living clones).
func TestRemoveInUse(t *testing.T) {
	t.Parallel()
	var order []string
	h := openHost(t, &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, id string, n int, real func() error) error {
		if call == "destroy-volume" {
			order = append(order, id)
		}
		return real()
	}}, Options{}, "m")
	a, err := h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "owner", ContainerRequest{Inputs: []Input{{a, "text"}}}); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveArtifact(t.Context(), a); !errors.Is(err, sdk.ReasonInUse) {
		t.Errorf("removing what is cloned: %v; destroyed %q", err, order)
	}
}

// An artifact removed in the middle of its stream leaves no row behind it.
func TestRemovedWhileStreamed(t *testing.T) {
	t.Parallel()
	var h *Host
	var a *Artifact
	rt := newMemory(t, "a", "b")
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, w string, n int, real func() error) error {
		if call == "stream-in" && w == "b" && n == 2 {
			if err := real(); err != nil {
				return err
			}
			_ = h.RemoveArtifact(ctx, a)
			return errAway
		}
		return real()
	}}
	h = openHost(t, o, Options{}, "a", "b")
	var err error
	if a, err = h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"})); err != nil {
		t.Fatal(err)
	}
	wa, _ := h.worker("a")
	wb, _ := h.worker("b")
	if _, err := h.replicate(t.Context(), a, wa, nil); err != nil {
		t.Fatal(err)
	}
	_, err = h.replicate(t.Context(), a, wb, nil)
	t.Log(err)
	testkit.Until(t, "no volume row is left of a removed artifact", func() bool {
		rows, err := h.volumes(t.Context(), store.VolumeFilter{})
		return err == nil && len(rows) == 0
	})
}

// Children go before the volumes that they are clones of, when a worker is settled too.
func TestSettleChildrenFirst(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	a, err := h.AddDir(t.Context(), "text", "", tree(t, map[string]string{"a": "x"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Container(t.Context(), "owner", ContainerRequest{Inputs: []Input{{a, "text"}}}); err != nil {
		t.Fatal(err)
	}
	rows, err := h.volumes(t.Context(), store.VolumeFilter{})
	if err != nil {
		t.Fatal(err)
	}
	parent := ""
	for _, r := range rows { // as after a container and an artifact that could not be destroyed
		if r.Parent != "" {
			parent = r.Parent
		}
		r.State = lifecycle.VolumeDestroying
		if err := h.putVolume(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	c := containerRows(t, h)[0]
	c.State = lifecycle.ContainerDestroying
	if err := h.putContainer(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	closeTestHost(t, h)
	var mu sync.Mutex
	var order []string
	h = openHost(t, &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, n int, real func() error) error {
		if call == "destroy-volume" {
			mu.Lock()
			order = append(order, id)
			mu.Unlock()
		}
		return real()
	}}, Options{StateDir: dir}, "m")
	destroyed(t, h, rt)
	mu.Lock()
	defer mu.Unlock()
	if len(order) != 2 || order[0] == parent {
		t.Errorf("parent %s, destroyed in the order %q", parent, order)
	}
}

// A step that has exited with 0 has succeeded, though its worker is away for a while just then: what it made is waited for, and what nobody
// wants goes once the worker is back.
func TestAwayAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"destroy", "destroy-volume"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			rt := newMemory(t, "m")
			first := sync.OnceValue(time.Now)
			o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{call: func(_ int, real func() error) error {
				if time.Since(first()) < destroyPatience+destroyPatience/4 {
					return errAway
				}
				return real()
			}}}
			h := openHost(t, o, Options{}, "m")
			out := filepath.Join(t.TempDir(), "out")
			res, err := h.Run(t.Context(), RunRequest{Job: parseJob(t, copyJob), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})},
				Outputs: map[string]string{"o": out}})
			if err != nil || !res.Succeeded() {
				t.Fatalf("%s, %v, %v", states(res), res.Steps[0].Err, err)
			}
			if b, err := os.ReadFile(filepath.Join(out, "a")); err != nil || string(b) != "x" {
				t.Errorf("%q %v", b, err)
			}
			w := mustWorker(t, h, "m")
			testkit.Until(t, "nothing is left on the worker", func() bool {
				w.lookNow()
				return len(onWorker(t, rt, "m")) == 0
			})
		})
	}
}
