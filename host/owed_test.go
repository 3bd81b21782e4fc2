package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// destroyed waits for a worker to look until nothing of ours is on it and no container's row is on its way, though nobody asks for that again.
func destroyed(t *testing.T, h *Host, rt sdk.Runtime) {
	t.Helper()
	w, err := h.worker("m")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "what is owed is paid", func() bool {
		w.lookNow() // the clock comes every statusEvery
		for _, r := range containerRows(t, h) {
			if r.State != lifecycle.ContainerDestroyed {
				return false
			}
		}
		rows, err := h.volumes(t.Context(), store.VolumeFilter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows) == 0 && len(onWorker(t, rt, "m")) == 0
	})
}

// TestOwedUntilPaid: a container is to be destroyed, which fails in the caller's hands and then again as often as a worker likes, in each
// class: it is tried until it has worked, and the worker is not away for that.
func TestOwedUntilPaid(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]error{
		"unavailable": sdk.NewUnavailable(nil, "not now"),
		"internal":    sdk.NewInternal(nil, "device or resource busy"),
		"exhausted":   sdk.NewExhausted(sdk.ReasonMemory, "too much to do"),
		"no class":    fmt.Errorf("oops"),
	} {
		for _, call := range []string{"destroy", "destroy-volume"} {
			t.Run(name+", "+call, func(t *testing.T) {
				t.Parallel()
				rt := newMemory(t, "m")
				var told atomic.Bool // the caller's has failed; the host may have tried before it
				var since atomic.Int32
				o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{call: func(_ int, real func() error) error {
					switch {
					case !told.Load():
						return sdk.NewInternal(nil, "device or resource busy")
					case since.Add(1) < 4:
						return again
					}
					return real()
				}}}
				h := openHost(t, o, Options{}, "m")
				c, err := h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "sleep 1000"}}); err != nil {
					t.Fatal(err)
				}
				if err := c.Destroy(t.Context()); err == nil {
					t.Fatal("it worked at once")
				}
				told.Store(true)
				destroyed(t, h, rt)
				if w, _ := h.worker("m"); !w.report().Up || w.wasAway {
					t.Errorf("the worker was taken away: %+v", w.report())
				}
			})
		}
	}
}

// TestOwedBesideAnother: one thing that is Unavailable for ever holds up no other, nor new work.
func TestOwedBesideAnother(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	var broken sync.Map // ids of containers
	var all atomic.Bool
	all.Store(true)
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, id string, _ int, real func() error) error {
		if call != "destroy" {
			return real()
		}
		if all.Load() {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		if _, ok := broken.Load(id); ok {
			return sdk.NewUnavailable(nil, "not now")
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	var ids []sdk.ContainerID // in the order in which they are settled
	for _, owner := range []string{"stuck", "other"} {
		c, err := h.Container(t.Context(), owner, ContainerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Destroy(t.Context()); err == nil {
			t.Fatal("it worked at once")
		}
		ids = append(ids, c.id)
	}
	broken.Store(string(ids[0]), true)
	all.Store(false)
	w, _ := h.worker("m")
	testkit.Until(t, "the other goes", func() bool {
		w.lookNow()
		return stateOf(t, h, "other") == lifecycle.ContainerDestroyed
	})
	if s := stateOf(t, h, "stuck"); s != lifecycle.ContainerDestroying {
		t.Errorf("what is stuck is %s", s)
	}
	if out := output(t, script(t, h, "new", "echo works")); out != "works\n" {
		t.Errorf("new work: %q", out)
	}
	c, err := h.FindContainer(t.Context(), "new")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken.Delete(string(ids[0]))
	destroyed(t, h, rt)
}

// TestOwedAfterTheCall: the worker has destroyed a container, and its caller's context ends before that is written down, or before its volumes
// go: the rest is done.
func TestOwedAfterTheCall(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"destroy-intent", "destroyed"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			rt := newMemory(t, "m")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			returned := make(chan struct{}) // or the rest may be done before its caller looks
			h := openHost(t, rt, Options{fault: func(point string) {
				if point == at {
					cancel()
					<-returned
				}
			}}, "m")
			c, err := h.Container(t.Context(), "owner", ContainerRequest{Outputs: []Output{{"o", "o"}}})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Destroy(ctx)
			close(returned)
			if err == nil {
				t.Fatal("it worked")
			}
			destroyed(t, h, rt)
		})
	}
}

// TestOwedAcrossStarts: what a host could not destroy is the next one's to do, whose own first tries fail, too.
func TestOwedAcrossStarts(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var fails atomic.Int32
	fails.Store(1000)
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"destroy": func(_ int, real func() error) error {
		if fails.Add(-1) >= 0 {
			return sdk.NewInternal(nil, "device or resource busy")
		}
		return real()
	}}}
	h := openHost(t, o, Options{StateDir: dir}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Destroy(t.Context()); err == nil {
		t.Fatal("it worked")
	}
	closeTestHost(t, h)
	fails.Store(3)
	h = openHost(t, o, Options{StateDir: dir}, "m")
	destroyed(t, h, rt)
}

// TestClosedWhileCreating: a creation that fails while its host closes may have had its effect, which the next host adopts; so its caller hears that the host was
// closed, and not only what the worker said.
func TestClosedWhileCreating(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var h *Host
	var closing sync.WaitGroup
	o := &hooked{Runtime: rt, on: map[string]func(int, func() error) error{"create": func(_ int, real func() error) error {
		closing.Go(func() { closeTestHost(t, h) })
		<-h.ctx.Done()
		return errors.Join(real(), sdk.NewInternal(nil, "device or resource busy"))
	}}}
	h = openHost(t, o, Options{StateDir: dir}, "m")
	if c, err := h.Container(testkit.Context(t), "owner", ContainerRequest{}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, %v, want that it was closed", c, err)
	}
	closing.Wait()
}
