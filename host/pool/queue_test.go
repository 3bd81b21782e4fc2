package pool_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

func limited(n int) func(*pool.Worker) {
	return func(w *pool.Worker) { w.Limits.Containers = n }
}

// line runs Acquire for several owners in a bubble and notes who gets what.
type line struct {
	t *testing.T
	x *pool.Index
	p *pool.Placer
	q *pool.Queue

	mu     sync.Mutex
	got    []string // owners in the order in which they were served
	errs   map[string]error
	choice map[string]pool.Choice
}

func newLine(t *testing.T, o pool.Options, ws ...pool.Worker) *line {
	x, p := index(ws...), placer(t, pool.Policy{}, o)
	return &line{t: t, x: x, p: p, q: pool.NewQueue(x, p), errs: map[string]error{}, choice: map[string]pool.Choice{}}
}

// wait starts an Acquire and returns once it has ended or waits.
func (l *line) wait(owner string, s pool.Spec) context.CancelFunc {
	ctx, cancel := context.WithCancel(l.t.Context())
	go func() {
		c, err := l.q.Acquire(ctx, owner, s)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.errs[owner] = err
			return
		}
		l.choice[owner] = c
		l.got = append(l.got, owner)
	}()
	synctest.Wait()
	return cancel
}

func (l *line) want(owners ...string) {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.got, owners) {
		l.t.Fatalf("served %q, want %q (errors %v)", l.got, owners, l.errs)
	}
}

func (l *line) waiting(owners ...string) {
	l.t.Helper()
	var got []string
	for _, w := range l.q.Waiting() {
		got = append(got, w.Owner)
	}
	if !slices.Equal(got, owners) {
		l.t.Fatalf("waiting %q, want %q", got, owners)
	}
}

func (l *line) err(owner string) error {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errs[owner]
}

func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(2)))
		l.wait("a1", pool.Spec{Team: "a"})
		l.wait("a2", pool.Spec{Team: "a"})
		l.want("a1", "a2") // room for two
		for _, o := range []string{"a3", "a4", "b1", "b2", "c1"} {
			l.wait(o, pool.Spec{Team: o[:1]})
		}
		l.wait("urgent", pool.Spec{Team: "a", Priority: 1})
		l.waiting("urgent", "b1", "b2", "c1", "a3", "a4")
		served := []string{"a1", "a2"}
		// Priority first, then the team that holds least, then the one not served for longest (a was, through urgent), then age.
		for _, next := range []string{"urgent", "b1", "c1", "a3", "b2", "a4"} {
			l.x.Release(served[len(served)-2])
			served = append(served, next)
			l.want(served...)
		}
		l.waiting()
	})
}

// Between teams that hold the same, places alternate; within one, age decides.
func TestQueueIsFairBetweenTeams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(1)))
		lease(t, l.x, "first", "w", pool.Check)
		for i := range 3 {
			l.wait(fmt.Sprint("a", i), pool.Spec{Team: "a"})
		}
		l.wait("b0", pool.Spec{Team: "b"})
		l.wait("b1", pool.Spec{Team: "b"})
		last := "first"
		served := []string{}
		for _, want := range []string{"a0", "b0", "a1", "b1", "a2"} {
			l.x.Release(last)
			served = append(served, want)
			l.want(served...)
			last = want
		}
		// The queue was empty: whose turn it was is forgotten.
		l.wait("a3", pool.Spec{Team: "a"})
		l.wait("b2", pool.Spec{Team: "b"})
		l.x.Release(last)
		l.want(append(served, "a3")...)
	})
}

func TestQueueIsWokenBy(t *testing.T) {
	cordoned := func(w *pool.Worker) { w.State = pool.Cordoned }
	stalled := func(paused string) func(*pool.Worker) {
		return func(w *pool.Worker) { w.State, w.Paused = pool.Stalled, paused }
	}
	tests := []struct {
		name  string
		event func(*pool.Index)
		want  string // the worker, empty for a NoWorkerError
	}{
		{"release", func(x *pool.Index) { x.Release("busy") }, "w"},
		{"a new worker", func(x *pool.Index) { x.Upsert(running("v")) }, "v"},
		{"a higher limit", func(x *pool.Index) { x.Upsert(running("w", limited(2))) }, "w"},
		{"a paused worker that goes on", func(x *pool.Index) {
			x.Upsert(running("v", func(w *pool.Worker) { w.Paused = "its containers are away" }))
			x.Upsert(running("v"))
		}, "v"},
		{"a stalled worker that is back", func(x *pool.Index) {
			x.Upsert(running("w", limited(1), stalled("away")))
			x.Upsert(running("w", limited(2)))
		}, "w"},
		{"the last compatible worker given up", func(x *pool.Index) {
			x.Upsert(running("w", limited(1), stalled("away")))
			x.Upsert(running("w", limited(1), stalled("")))
		}, ""},
		{"a lost volume", func(x *pool.Index) {
			x.Upsert(running("v", func(w *pool.Worker) { w.Limits.Volumes = 1 }))
			x.ChangeVolume(pool.VolumeChange{Worker: "v", Was: pool.VolumeState{Stage: pool.Going, Key: "k"}})
		}, "v"},
		{"the last compatible worker removed", func(x *pool.Index) { x.Remove("w") }, ""},
		{"the last compatible worker cordoned", func(x *pool.Index) { x.Upsert(running("w", cordoned)) }, ""},
		{"its lease found elsewhere", func(x *pool.Index) {
			x.Upsert(running("v", cordoned))
			if err := x.Acquire(pool.Lease{Owner: "o", Worker: "v"}); err != nil {
				panic(err)
			}
		}, "v"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, pool.Options{}, running("w", limited(1)))
				l.x.ChangeVolume(pool.VolumeChange{Worker: "v", Is: pool.VolumeState{Stage: pool.Going, Key: "k"}})
				lease(t, l.x, "busy", "w", pool.Build)
				began := time.Now()
				l.wait("o", pool.Spec{Volumes: 1})
				l.waiting("o")
				tt.event(l.x)
				err := l.err("o")
				if d := time.Since(began); d != 0 {
					t.Errorf("woken after %s: by a timer, not by the event", d)
				}
				var none *pool.NoWorkerError
				if tt.want == "" && !errors.As(err, &none) || tt.want != "" && l.choice["o"].Worker != tt.want {
					t.Errorf("got %+v, %v; want %q", l.choice["o"], err, tt.want)
				}
				l.waiting()
			})
		})
	}
}

// Losing one of two compatible workers, both full, is no reason to give up.
func TestQueueStaysWhileAWorkerIsCompatible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("v", limited(1)), running("w", limited(1)))
		lease(t, l.x, "1", "v", pool.Build)
		lease(t, l.x, "2", "w", pool.Build)
		l.wait("o", pool.Spec{})
		l.x.Remove("v")
		l.waiting("o")
		l.x.Upsert(running("v", limited(1))) // still full: its lease outlived it
		l.x.Remove("w")
		l.waiting("o")
		l.x.Release("1")
		l.want("o")
	})
}

func TestQueueLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{WaitLimit: time.Minute}, running("w", limited(1)))
		lease(t, l.x, "busy", "w", pool.Build)

		began := time.Now()
		_, err := l.q.Acquire(t.Context(), "o", pool.Spec{WaitLimit: time.Second})
		var late *pool.WaitError
		var full *pool.FullError
		if !errors.As(err, &late) || !errors.As(err, &full) || late.Waited != time.Second || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if want := `"o" waited 1s for a place, its limit: no place free: 1 at the limit of containers (w: 1 of 1 containers): wait, raise the limit, or add a worker`; err.Error() != want {
			t.Errorf("text is %s", err)
		}
		began = time.Now()
		if _, err := l.q.Acquire(t.Context(), "o", pool.Spec{}); !errors.As(err, &late) || time.Since(began) != time.Minute {
			t.Errorf("default limit, after %s: %v", time.Since(began), err)
		}
		if _, err := l.q.Acquire(t.Context(), "o", pool.Spec{WaitLimit: -1}); errors.As(err, new(*pool.WaitError)) || !errors.As(err, &full) {
			t.Errorf("not to wait: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.q.Acquire(ctx, "o", pool.Spec{}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
		if _, err := l.q.Acquire(t.Context(), "o", pool.Spec{Platform: "plan9"}); !errors.As(err, new(*pool.NoWorkerError)) {
			t.Errorf("incompatible: %v", err)
		}
		l.waiting()
	})
}

func TestQueueCancelLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(1)))
		lease(t, l.x, "busy", "w", pool.Build)
		cancel := l.wait("gone", pool.Spec{})
		l.wait("next", pool.Spec{})
		cancel()
		if err := l.err("gone"); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled: %v", err)
		}
		l.waiting("next")
		l.x.Release("busy")
		l.want("next")
		if _, held := l.x.Held("gone"); held || l.x.Usage("w").Build != 1 {
			t.Errorf("the cancelled one has left a lease: %+v", l.x.Usage("w"))
		}
	})
}

func TestOwnersShareOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(1)))
		lease(t, l.x, "busy", "w", pool.Build)
		l.wait("o", pool.Spec{})
		l.wait("o", pool.Spec{})
		l.wait("o", pool.Spec{})
		l.x.Release("busy")
		l.want("o", "o", "o")
		if u := l.x.Usage("w"); u.Build != 1 {
			t.Errorf("%d leases", u.Build)
		}
		l.x.Upsert(running("w", func(w *pool.Worker) { w.State = pool.Stalled }))
		c, err := l.q.Acquire(t.Context(), "o", pool.Spec{Platform: "plan9"})
		if err != nil || c.Worker != "w" || !c.Held {
			t.Errorf("the owner's worker does not win: %+v, %v", c, err)
		}
		l.x.Release("o")
		if u := l.x.Usage("w"); u != (pool.Usage{}) {
			t.Errorf("left over: %+v", u)
		}
	})
}

func TestWaitingSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("v", limited(1)), running("w", limited(1)), running("x", func(w *pool.Worker) { w.Platform = "windows" }))
		lease(t, l.x, "1", "v", pool.Build)
		lease(t, l.x, "2", "w", pool.Build)
		since := time.Now()
		l.wait("o", pool.Spec{Platform: "linux"})
		got := l.q.Waiting()
		if len(got) != 1 || got[0].Owner != "o" || !got[0].Since.Equal(since) || got[0].Spec.Platform != "linux" {
			t.Fatalf("%+v", got)
		}
		var why []string
		for _, v := range l.p.Explain(l.x, got[0].Spec) {
			why = append(why, v.Worker+": "+string(v.Reason))
		}
		if want := []string{"v: " + string(pool.FullContainers), "w: " + string(pool.FullContainers), "x: " + string(pool.OtherPlatform)}; !slices.Equal(why, want) {
			t.Errorf("it waits since %q, want %q", why, want)
		}
		l.x.Release("1")
		l.want("o")
	})
}

// Who was told by a worker that it has no room waits as for a full one, and asks again when something on it was released, one at a time, or when
// its time has come.
func TestQueueOfTheExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w"), running("other", func(w *pool.Worker) { w.Tags = []string{"other"} }))
		said := func(o pool.Spec) pool.Spec {
			o.Exhausted = map[string]string{"w": "the disk is full"}
			return o
		}
		for _, o := range []string{"x", "y", "z"} {
			lease(t, l.x, o, "w", pool.Build)
		}
		_, err := l.q.Acquire(t.Context(), "now", said(pool.Spec{WaitLimit: -1}))
		if full := (*pool.FullError)(nil); !errors.As(err, &full) || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("without a wait: %v", err)
		}
		l.wait("a", said(pool.Spec{}))
		l.wait("b", said(pool.Spec{}))
		l.wait("late", said(pool.Spec{RetryIn: time.Minute}))
		l.waiting("a", "b", "late")
		l.want()
		l.x.GiveBack("x") // it had nothing there
		l.want()
		l.x.Release("y")
		l.want("a")
		l.wait("c", pool.Spec{}) // nobody has told it anything
		l.want("a", "c")
		time.Sleep(time.Minute) // of the bubble
		l.want("a", "c", "late")
		l.x.Upsert(running("w", func(w *pool.Worker) { w.Reason = "changed" })) // which frees nothing
		l.waiting("b")
		l.x.Release("z")
		l.want("a", "c", "late", "b")
	})
}
