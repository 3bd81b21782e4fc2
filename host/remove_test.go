package host

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// making is an owner's container that callers ask for.
type making struct {
	waits chan struct{} // gets one for each time that a caller hears that it waits for a place
	errs  chan error
}

func (m making) ask(t *testing.T, h *Host, owner string) {
	ctx := testkit.Context(t)
	go func() {
		_, err := h.Container(ctx, owner, ContainerRequest{Outputs: []Output{{Name: "o", Path: "o"}}, Observe: func(e Event) {
			if e.Kind == EventWaiting && e.Message != "" {
				m.waits <- struct{}{}
			}
		}})
		m.errs <- err
	}()
}

// await waits until a worker was asked to make it.
func (m making) await(t *testing.T, asked <-chan struct{}) {
	t.Helper()
	select {
	case <-asked:
	case err := <-m.errs:
		t.Fatal(err)
	}
}

func newMaking() making { return making{make(chan struct{}, 8), make(chan error, 8)} }

// wantAborted looks whether a caller was told that somebody has removed what it asked for, and nothing else.
func (m making) wantAborted(t *testing.T, owner string) {
	t.Helper()
	const want = "container of owner: owner was aborted: its container was removed while it was asked for"
	aborted := (*AbortedError)(nil)
	if err := <-m.errs; !errors.As(err, &aborted) || aborted.Owner != owner || err.Error() != want {
		t.Errorf("who asked for it is told %v, want %s", err, want)
	}
}

// TestRemoveWhileMade: a container that is removed while its worker makes it is undone when that returns, all who asked for it are told why, and its owner may ask
// again at once. So it is whether the worker heeds that the call was cut, or makes the container all the same.
func TestRemoveWhileMade(t *testing.T) {
	t.Parallel()
	for _, heeds := range []bool{true, false} {
		name := "the worker ends its call"
		if !heeds {
			name = "the worker makes it all the same"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 8)
			rt := newMemory(t, "m")
			o := &hooked{Runtime: rt, whole: !heeds, hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
				if call != "create" || n > 1 {
					return real()
				}
				asked <- struct{}{}
				<-ctx.Done()
				if heeds {
					return ctx.Err()
				}
				return real()
			}}
			h := openHost(t, o, Options{}, "m")
			m := newMaking()
			m.ask(t, h, "owner")
			m.await(t, asked)
			if err := h.RemoveContainer(testkit.Context(t), "owner"); err != nil {
				t.Fatal(err)
			}
			m.wantAborted(t, "owner")
			if left := onWorker(t, rt, "m"); len(left) > 0 {
				t.Errorf("the worker has %q still", left)
			}
			if rows := containerRows(t, h); len(rows) > 0 {
				t.Errorf("rows are left: %+v", rows)
			}
			if err := h.RemoveContainer(testkit.Context(t), "owner"); sdk.ClassOf(err) != sdk.NotFound {
				t.Errorf("removed again: %v, want NotFound", err)
			}
			m.ask(t, h, "owner")
			if err := <-m.errs; err != nil {
				t.Fatalf("asked again: %v", err)
			}
			if err := h.RemoveContainer(testkit.Context(t), "owner"); err != nil || stateOf(t, h, "owner") != lifecycle.ContainerDestroyed {
				t.Errorf("it is %s, %v", stateOf(t, h, "owner"), err)
			}
		})
	}
}

// TestDestroyWhileMade: whoever has found a container that is still being made, and destroys it, has its making given up likewise. To destroy that one again does
// nothing to the one that its owner asks for after it.
func TestDestroyWhileMade(t *testing.T) {
	t.Parallel()
	asked, let := make(chan struct{}, 2), make(chan struct{})
	rt := newMemory(t, "m")
	h := openHost(t, &hooked{Runtime: rt, hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		if call != "create" {
			return real()
		}
		asked <- struct{}{}
		select {
		case <-let:
			return real()
		case <-ctx.Done():
			return ctx.Err()
		}
	}}, Options{}, "m")
	m := newMaking()
	m.ask(t, h, "owner")
	m.await(t, asked)
	c, err := h.FindContainer(testkit.Context(t), "owner")
	if err == nil {
		err = c.Destroy(testkit.Context(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	m.wantAborted(t, "owner")
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("the worker has %q still", left)
	}
	m.ask(t, h, "owner")
	m.await(t, asked)
	if err := c.Destroy(testkit.Context(t)); err != nil {
		t.Errorf("destroyed again: %v", err)
	}
	close(let)
	if err := <-m.errs; err != nil {
		t.Errorf("who asked after it is told %v", err)
	}
}

// TestRemoveWhileWaiting: a container that waits for a place has no row, and is found by who removes it all the same.
func TestRemoveWhileWaiting(t *testing.T) {
	t.Parallel()
	cfg := testConfig("m")
	cfg.Placement = config.Placement{NoInput: []string{string(pool.LimitActiveContainers)}, Build: []string{string(pool.LimitActiveContainers)}, Limits: config.Limits{Containers: 1}}
	h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}})
	if _, err := h.Container(testkit.Context(t), "first", ContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	m := newMaking()
	m.ask(t, h, "owner")
	<-m.waits
	m.ask(t, h, "owner") // whether it joins the first before that is removed or not, it is told the same, or waits
	if err := h.RemoveContainer(testkit.Context(t), "owner"); err != nil {
		t.Fatal(err)
	}
	m.wantAborted(t, "owner")
	// The second may have joined the first, or have come after it.
	select {
	case <-m.waits:
		if err := h.RemoveContainer(testkit.Context(t), "owner"); err != nil {
			t.Fatal(err)
		}
		m.wantAborted(t, "owner")
	case err := <-m.errs:
		if !errors.As(err, new(*AbortedError)) {
			t.Errorf("the second caller: %v", err)
		}
	}
	if got := h.queue.Waiting(); len(got) > 0 {
		t.Errorf("there waits %+v still", got)
	}
}

// TestRemoveWhatCannotBeUndone: where what was made cannot be destroyed now, who removes it is told so.
func TestRemoveWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	stubborn := errors.New("the disk hangs")
	var works atomic.Bool
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		switch {
		case call == "create":
			close(asked)
			<-ctx.Done()
			return ctx.Err()
		case call == "destroy" && !works.Load():
			return stubborn
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	m := newMaking()
	m.ask(t, h, "owner")
	m.await(t, asked)
	err := h.RemoveContainer(testkit.Context(t), "owner")
	if !errors.Is(err, stubborn) {
		t.Errorf("removed: %v, want why it is there still", err)
	}
	m.wantAborted(t, "owner")
	works.Store(true)
	testkit.Until(t, "it is gone in the end", func() bool { return len(containerRows(t, h)) == 0 })
}
