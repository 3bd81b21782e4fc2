package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestInterruptedResume: a run is interrupted when it has been resumed and waits for the worker of a step that still runs there. What runs is destroyed once the worker is back, though the run
// has ended, by this host or by the next.
func TestInterruptedResume(t *testing.T) {
	t.Parallel()
	for _, next := range []bool{false, true} {
		rt := newMemory(t, "m")
		o, away := pluggable(rt)
		dir := t.TempDir()
		req := RunRequest{ID: "r", Grace: 100 * time.Millisecond, Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sleep"
      args = ["1000"]
    }
  }
}`)}
		h := openHost(t, o, Options{StateDir: dir}, "m")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		started, ended := make(chan struct{}), make(chan struct{})
		begun := req
		begun.Events = func(e Event) {
			if e.Kind == EventStarted {
				close(started)
			}
		}
		go func() {
			defer close(ended)
			_, _ = h.Run(ctx, begun)
		}()
		<-started
		closeTestHost(t, h)
		<-ended

		away.Store(true)
		h = openHost(t, o, Options{StateDir: dir}, "m")
		resumed, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		again := req
		again.Events = func(e Event) {
			if e.Kind == EventWaiting && e.Worker == "m" {
				interrupt()
			}
		}
		res, err := h.Run(resumed, again)
		if res == nil || res.Steps[0].State != StepAborted {
			t.Fatalf("%v, %v", res, err)
		}
		if next {
			closeTestHost(t, h)
			away.Store(false)
			openHost(t, o, Options{StateDir: dir}, "m")
		}
		away.Store(false)
		testkit.Until(t, "the worker is empty", func() bool { return len(onWorker(t, rt, "m")) == 0 })
	}
}

// TestInterruptedAtOnce: a run that is interrupted the moment that it has begun has ended, and is not left for somebody to resume.
func TestInterruptedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	h := openHost(t, newMemory(t, "m"), Options{fault: func(at string) {
		if at == "run-claimed" {
			interrupt()
		}
	}}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, copyJob), Inputs: map[string]string{"text": tree(t, map[string]string{"a": "x"})}}
	if res, err := h.Run(ctx, req); err != nil || states(res) != "s=aborted" {
		t.Fatalf("%+v, %v", res, err)
	}
	if r, err := h.RunByID(t.Context(), "r"); err != nil || !r.Ended {
		t.Errorf("%+v, %v", r, err)
	}
	checkEmpty(t, h)
}

// TestDestroyedWhileMade: a container is destroyed, as with its worker, while it is being made, and nobody gives that up. It is gone in the end, though its worker made it after it was told to destroy it.
func TestDestroyedWhileMade(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var h *Host
	o := &hooked{Runtime: rt}
	o.on = map[string]func(int, func() error) error{"create": func(n int, real func() error) error {
		if n == 1 {
			c, err := h.FindContainer(t.Context(), "o")
			if err == nil {
				err = h.destroyContainer(t.Context(), string(c.id), doom{volumes: true})
			}
			if err != nil {
				t.Error(err)
			}
		}
		return real()
	}}
	h = openHost(t, o, Options{}, "m")
	if c, err := h.Container(t.Context(), "o", ContainerRequest{}); err == nil {
		t.Errorf("a container that was destroyed is given: %s", c.id)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}

// TestImageDoomedMeanwhile: an image whose last use seems to be over is removed just before a container that mounts it says so. The container is not made of what is being destroyed.
func TestImageDoomedMeanwhile(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var h *Host
	var image *Artifact
	o := &hooked{Runtime: rt}
	o.on = map[string]func(int, func() error) error{"create-volume": func(n int, real func() error) error {
		err := real()
		if n == 2 { // the output's; the first is the image's
			for _, v := range replicas(t, h, image) {
				if err := h.store.Update(t.Context(), store.KillSafe, func(tx *store.Tx) error {
					_, err := h.moveVolume(tx, v.ID, lifecycle.Doomed, nil)
					return err
				}); err != nil {
					t.Error(err)
				}
				if err := h.awaitGone(t.Context(), "m", destroyPatience, volumeThing(v.ID)); err != nil {
					t.Error(err)
				}
			}
		}
		return err
	}}
	h = openHost(t, o, Options{}, "m")
	image, err := h.UploadDir(t.Context(), Upload{Name: "image"}, tree(t, map[string]string{"rootfs/etc/motd": "hello\n"}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := h.Container(t.Context(), "o", ContainerRequest{Image: image, Outputs: []Output{{"o", "o"}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "cat", Args: []string{"/etc/motd"}})
	if err != nil {
		t.Fatal(err)
	}
	waitOutcome(t, p)
	if got := output(t, p); got != "hello\n" || o.calls("create") != 1 {
		t.Errorf("the image has %q; its worker was asked for a container %d times", got, o.calls("create"))
	}
}

func replicas(t *testing.T, h *Host, a *Artifact) (rows []store.Volume) {
	t.Helper()
	if err := h.store.View(t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.Volumes(store.VolumeFilter{Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
		return err
	}); err != nil {
		t.Error(err)
	}
	return rows
}

// TestOutputMovedMeanwhile: what a step has made is on another worker when its run is resumed. The step is what it was, succeeded.
func TestOutputMovedMeanwhile(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m", "n")
	dir := t.TempDir()
	out := t.TempDir() + "/out"
	req := RunRequest{ID: "r", Outputs: map[string]string{"o": out}, Job: parseJob(t, `
job "j" {
  step "a" {
    outputs = ["o", "p"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  step "b" {
    inputs = { p = step.a.p }
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' USR1; echo ready; while :; do sleep 0.01; done"]
    }
  }
  output "o" { from = step.a.o }
}`)}
	h := openHost(t, rt, Options{StateDir: dir}, "m", "n")
	started, ended := make(chan struct{}), make(chan struct{})
	begun := req
	begun.Events = func(e Event) {
		if e.Kind == EventStarted && e.Step == "b" {
			close(started)
		}
	}
	go func() {
		defer close(ended)
		_, _ = h.Run(t.Context(), begun)
	}()
	<-started
	a, err := h.Artifact(t.Context(), OutputName(RunOwner("r", "a"), "o"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m", "n"} {
		if _, err := h.replicate(t.Context(), a, mustWorker(t, h, name), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range replicas(t, h, a) {
		if made := v.Container != "" || v.Role == roleOutput; made {
			if err := h.dropReplica(t.Context(), v); err != nil {
				t.Errorf("%+v is not given up: %v", v, err)
			}
		}
	}
	closeTestHost(t, h)
	<-ended
	h = openHost(t, rt, Options{StateDir: dir}, "m", "n")
	req.Events = func(e Event) {
		if e.Kind != EventStarted || e.Step != "b" {
			return
		}
		_, err := firstRecord(t, e.Process)
		if err == nil {
			err = e.Process.Signal(t.Context(), "USR1")
		}
		if err != nil {
			t.Error(err)
		}
	}
	res, err := h.Run(testkit.Context(t), req)
	if err != nil || !res.Succeeded() {
		t.Fatalf("%v: %v", states(res), errors.Join(err, res.Steps[0].Err))
	}
	if b, err := os.ReadFile(out + "/f"); err != nil || string(b) != "made\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestStartedByTwo: of two callers that start one process the first is refused for want of room. The second starts it then: nothing that it has begun is taken back for the first one's sake.
func TestStartedByTwo(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var c *Container
	type begun struct {
		p   *Process
		err error
	}
	start := func() (b begun) {
		b.p, b.err = c.Start(t.Context(), MainProcess, ProcessRequest{Path: "echo", Args: []string{"once"}})
		return b
	}
	second, refused, effect := make(chan begun, 1), make(chan struct{}), make(chan struct{})
	o := &hooked{Runtime: rt}
	o.on = map[string]func(int, func() error) error{"start": func(n int, real func() error) error {
		if n > 1 {
			err := real()
			close(effect)
			<-refused // what comes of the first is known before the second knows what came of its own
			return err
		}
		go func() { second <- start() }()
		select {
		case <-effect: // it did not wait for this one
		case <-time.After(100 * time.Millisecond):
		}
		return &sdk.Error{Class: sdk.Exhausted, Message: "no room"}
	}}
	h := openHost(t, o, Options{}, "m")
	c, err := h.Container(t.Context(), "o", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if b := start(); !errors.Is(b.err, sdk.Exhausted) {
		t.Errorf("the first: %v", b.err)
	}
	close(refused)
	b := <-second
	if b.err != nil {
		t.Fatalf("the second: %v", b.err)
	}
	if outcome := waitOutcome(t, b.p); outcome.Exit == nil || output(t, b.p) != "once\n" {
		t.Errorf("it came to %+v", outcome)
	}
}

// TestImageReadNoMore: what was started is found again, and followed, by a host that cannot read its image any more. What may have been started is lost then, and not an error
// that leaves it to run.
func TestImageReadNoMore(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	dir := t.TempDir()
	broken := false
	var cut atomic.Pointer[context.CancelFunc] // of the next start; nil: it is made
	o := &hooked{Runtime: rt}
	o.on = map[string]func(int, func() error) error{"stream-out": func(_ int, real func() error) error {
		if broken {
			return &WorkerGoneError{Worker: "m", Cause: sdk.NewUnavailable(nil, "gone")}
		}
		return real()
	}, "start": func(_ int, real func() error) error {
		if cancel := cut.Swap(nil); cancel != nil {
			(*cancel)()
			return context.Canceled
		}
		return real()
	}}
	h := openHost(t, o, Options{StateDir: dir}, "m")
	image, err := h.UploadDir(t.Context(), Upload{Name: "image"}, tree(t, map[string]string{"rootfs/f": "", "metadata.json": `{"env": ["A=image"]}`}))
	if err != nil {
		t.Fatal(err)
	}
	start := func(owner string) (*Process, error) {
		c, err := h.Container(t.Context(), owner, ContainerRequest{Image: image})
		if err != nil {
			t.Fatal(err)
		}
		return c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "echo $A; sleep 1"}})
	}
	if _, err := start("started"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, err := h.Container(ctx, "perhaps", ContainerRequest{Image: image})
	if err != nil {
		t.Fatal(err)
	}
	cut.Store(&cancel)
	if _, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "true"}); err == nil {
		t.Fatal("it was started")
	}
	closeTestHost(t, h)
	broken = true
	h = openHost(t, o, Options{StateDir: dir}, "m")
	p, err := start("started")
	if err != nil {
		t.Fatalf("what was started: %v", err)
	}
	if outcome := waitOutcome(t, p); outcome.Exit == nil || output(t, p) != "image\n" {
		t.Errorf("it came to %+v", outcome)
	}
	if _, err := start("perhaps"); !isLost(err) {
		t.Errorf("what may have been started: %v", err)
	}
}

func isLost(err error) bool {
	_, lost := errors.AsType[*LostError](err)
	return lost
}

// TestEndedBeforeItBegan: of a run that was ended before any of its steps had begun it is told who ended it.
func TestEndedBeforeItBegan(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	req := RunRequest{Job: parseJob(t, `
job "j" {
  step "s" {
    run { path = "true" }
  }
}`)}
	for _, cause := range []error{ErrRunAborted, nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		res, err := h.Run(ctx, req)
		if want := cmp.Or(cause, errInterrupted); res != nil || !errors.Is(err, want) {
			t.Errorf("result %v, error %v, want %v", res, err, want)
		}
	}
}
