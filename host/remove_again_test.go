package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestLateDestroyTakesNoOther: of the first destroying of a container nothing is heard before its host is closed, and a later host destroys the container again, whose answer is lost twice. The owner gets another container
// then. Only after that the first call gets through to the worker. No call can mean that other container, for it has an id of its own.
func TestLateDestroyTakesNoOther(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var meant []string // by the calls
	late, through := make(chan func() error, 1), newMemory(t, "m")
	rt := &hooked{Runtime: through, hook: func(ctx context.Context, call, id string, n int, real func() error) error {
		if call != "destroy" {
			return real()
		}
		mu.Lock()
		meant = append(meant, id)
		mu.Unlock()
		switch n {
		case 1: // it is on its way when its caller ends
			conn, err := through.Worker("m")
			if err != nil {
				return err
			}
			late <- func() error { return conn.DestroyContainer(context.WithoutCancel(ctx), sdk.ContainerID(id)) }
			<-ctx.Done()
			return ctx.Err()
		case 2, 3: // it works, and nobody hears of it
			if err := real(); err != nil {
				return err
			}
			return errAway
		}
		return real()
	}}
	dir := newStateDir(t)
	h := openAt(t, dir, "same", rt)
	first := ranIn(t, h, "owner", ContainerRequest{})
	ctx, cancel := context.WithCancel(testkit.Context(t))
	removed := make(chan error, 1)
	go func() { removed <- h.RemoveContainer(ctx, "owner") }()
	arrives := <-late
	cancel()
	if err := <-removed; err == nil {
		t.Error("it is removed before its worker has said so")
	}
	closeTestHost(t, h)

	h = openAt(t, dir, "same", rt)
	second, err := h.Container(testkit.Context(t), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := arrives(); err != nil {
		t.Errorf("the first call, once it is there: %v", err)
	}
	if has := onWorker(t, through, "m"); second.ID() == first.ID() || !slices.Equal(has, []string{"container " + second.ID()}) {
		t.Errorf("after %s the owner has %s, and the worker %q", first.ID(), second.ID(), has)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := slices.Repeat([]string{first.ID()}, 4); !slices.Equal(meant, want) {
		t.Errorf("what was asked to be destroyed is %q, want %q", meant, want)
	}
}

// TestRemoveByIDAgain: who repeats the removal of a container, since its answer was lost, leaves alone what its owner was given meanwhile, whatever has become of that by then.
func TestRemoveByIDAgain(t *testing.T) {
	t.Parallel()
	for _, making := range []bool{false, true} {
		t.Run(fmt.Sprintf("the next one is made still: %t", making), func(t *testing.T) {
			t.Parallel()
			asked, let := make(chan struct{}), make(chan struct{})
			rt := &hooked{Runtime: newMemory(t, "m"), hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
				if call != "create" || n == 1 {
					return real()
				}
				close(asked)
				select {
				case <-let:
					return real()
				case <-ctx.Done():
					return ctx.Err()
				}
			}}
			h := openHost(t, rt, Options{}, "m")
			ctx := testkit.Context(t)
			first := ranIn(t, h, "owner", ContainerRequest{})
			if err := h.RemoveContainerByID(ctx, "owner", first.ID()); err != nil || stateOf(t, h, "owner") != lifecycle.ContainerDestroyed {
				t.Fatalf("it is %s, %v", stateOf(t, h, "owner"), err)
			}
			m := newMaking()
			m.ask(t, h, "owner")
			m.await(t, asked)
			if !making {
				close(let)
				if err := <-m.errs; err != nil {
					t.Fatal(err)
				}
			}
			if err := h.RemoveContainerByID(ctx, "owner", first.ID()); err != nil {
				t.Errorf("removed again: %v", err)
			}
			if making {
				close(let)
				if err := <-m.errs; err != nil {
					t.Errorf("who asked after it is told %v", err)
				}
			}
			second, err := h.FindContainer(ctx, "owner")
			if err != nil || second.ID() == first.ID() || second.State() != lifecycle.ContainerReady {
				t.Fatalf("the owner has %v, %v", second, err)
			}
			if err := h.RemoveContainerByID(ctx, "owner", second.ID()); err != nil || stateOf(t, h, "owner") != lifecycle.ContainerDestroyed {
				t.Errorf("the second is %s, %v", stateOf(t, h, "owner"), err)
			}
		})
	}
}

// TestRemoveByIDWhileMade: a container that is being made is given up by its id, too.
func TestRemoveByIDWhileMade(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	rt := newMemory(t, "m")
	h := openHost(t, &hooked{Runtime: rt, hook: func(ctx context.Context, call, _ string, _ int, real func() error) error {
		if call != "create" {
			return real()
		}
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	}}, Options{}, "m")
	m := newMaking()
	m.ask(t, h, "owner")
	m.await(t, asked)
	if err := h.RemoveContainerByID(testkit.Context(t), "owner", containerRows(t, h)[0].ID); err != nil {
		t.Fatal(err)
	}
	m.wantAborted(t, "owner")
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("the worker has %q still", left)
	}
}

// TestStopsNoLaterWork: who means to stop work that was under way leaves alone what has begun under its key since: so the creation of a container that its owner asks for while its last one is
// removed by its id once more.
func TestStopsNoLaterWork(t *testing.T) {
	t.Parallel()
	fs := flights[int]{closing: t.Context(), spawn: func(f func()) error { go f(); return nil }}
	begin := func(value int) (end func(), ended <-chan error) {
		started, ends, out := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			got, err := fs.do(t.Context(), "owner", func(ctx context.Context) (int, error) {
				close(started)
				select {
				case <-ends:
					return value, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			if err == nil && got != value {
				err = fmt.Errorf("%d, want %d", got, value)
			}
			out <- err
		}()
		<-started
		return func() { close(ends) }, out
	}
	if fs.underWay("owner") != nil {
		t.Error("work is under way before any began")
	}
	end, ended := begin(1)
	first := fs.underWay("owner")
	end()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	end, ended = begin(2)
	why := errors.New("stopped")
	if was, _, err := fs.stop(testkit.Context(t), "owner", first, why); was || err != nil {
		t.Errorf("the first, which has ended, was stopped: %t, %v", was, err)
	}
	end()
	if err := <-ended; err != nil {
		t.Errorf("the second: %v", err)
	}
	_, ended = begin(3)
	if was, _, err := fs.stop(testkit.Context(t), "owner", fs.underWay("owner"), why); !was || err != nil {
		t.Errorf("the third was stopped: %t, %v", was, err)
	}
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("who waits for the third is told %v", err)
	}
}
