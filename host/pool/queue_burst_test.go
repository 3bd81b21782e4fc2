package pool_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/pool"
)

// A place given in the moment of the cancel is not lost: the error is nil.
func TestQueueCancelMeetsPlace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the waiter cannot run between the two
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(1)))
		for i := range 20 {
			lease(t, l.x, "busy", "w", pool.Build)
			owner := fmt.Sprint("o", i)
			cancel := l.wait(owner, pool.Spec{})
			cancel()
			l.x.Release("busy")
			err := l.err(owner)
			if _, held := l.x.Held(owner); held != (err == nil) {
				t.Fatalf("lease held %t, but error %v", held, err)
			}
			l.x.Release(owner)
		}
	})
}

// A burst from many goroutines never goes over a limit and leaves no one behind.
func TestQueueBurst(t *testing.T) {
	const limit, callers, rounds = 3, 40, 25
	x := index(running("v", limited(limit)), running("w", limited(limit)))
	q := pool.NewQueue(x, placer(t, pool.Policy{}, pool.Options{}))
	var now [2]atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for r := range rounds {
				owner := fmt.Sprintf("%d/%d", i, r)
				ctx, cancel := context.WithCancel(t.Context())
				if r%5 == 4 {
					go cancel() // races with the place, on purpose
				}
				c, err := q.Acquire(ctx, owner, pool.Spec{Team: fmt.Sprint(i % 3), Priority: i % 2})
				cancel()
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					if _, held := x.Held(owner); held {
						t.Errorf("%s failed with a lease", owner)
					}
					continue
				}
				n := &now[c.Worker[0]-'v']
				if held := n.Add(1); held > limit {
					t.Errorf("%d at once on %s", held, c.Worker)
				}
				runtime.Gosched() // let the others crowd in
				n.Add(-1)
				if !x.Release(owner) {
					t.Errorf("%s had no lease", owner)
				}
			}
		})
	}
	wg.Wait()
	if u, v := x.Usage("v"), x.Usage("w"); u != (pool.Usage{}) || v != (pool.Usage{}) || len(q.Waiting()) != 0 {
		t.Errorf("left over: %+v, %+v, %d waiters", u, v, len(q.Waiting()))
	}
}

// Whatever happens, nobody waits who could be served, and nobody waits in vain.
func TestNoLostWakeUps(t *testing.T) {
	names := []string{"w0", "w1", "w2"}
	// What may be so of a worker that is reserved for one: that it would take it but for room, or a moment.
	waitsFor := []pool.Reason{pool.FullContainers, pool.FullTasks, pool.FullVolumes, pool.FullResources, pool.Pausing}
	synctest.Test(t, func(t *testing.T) {
		// Hides Deadline, which has no meaning in a bubble.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			ctx, cancelAll := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancelAll()
			x := pool.NewIndex()
			p := placer(t, pool.Policy{}, pool.Options{MaxPassed: rapid.SampledFrom([]int{-1, 1, 2}).Draw(rt, "max passed")})
			q := pool.NewQueue(x, p)
			held := map[string]bool{}
			cancels := map[string]context.CancelFunc{}
			var mu sync.Mutex // protects held
			asked, shelf := 0, newShelf()
			owners := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return slices.Collect(maps.Keys(held))
			}
			pick := func(rt *rapid.T, from []string) string {
				if len(from) == 0 {
					rt.Skip("none")
				}
				slices.Sort(from)
				return rapid.SampledFrom(from).Draw(rt, "owner")
			}
			acquire := func(rt *rapid.T) {
				owner, s := fmt.Sprint("o", asked), genSpec(names).Draw(rt, "spec")
				s.Exclude = nil
				for _, n := range subset(names...).Draw(rt, "exhausted") {
					if rapid.IntRange(0, 3).Draw(rt, "really") == 0 {
						s.Exhausted = map[string]string{n: "no room"}
					}
				}
				asked++
				ctx, cancel := context.WithCancel(ctx)
				cancels[owner] = cancel
				wg.Go(func() {
					if _, err := q.Acquire(ctx, owner, s); err == nil {
						mu.Lock()
						defer mu.Unlock()
						held[owner] = true
					}
				})
			}
			rt.Repeat(map[string]func(*rapid.T){
				"acquire":  acquire,
				"acquire2": acquire,
				"acquire3": acquire,
				"upsert":   func(rt *rapid.T) { x.Upsert(genWorker(rapid.SampledFrom(names).Draw(rt, "w")).Draw(rt, "as")) },
				"remove":   func(rt *rapid.T) { x.Remove(rapid.SampledFrom(names).Draw(rt, "w")) },
				"make":     func(rt *rapid.T) { shelf.make(rt, q, rapid.SampledFrom(names).Draw(rt, "w"), "") },
				"change":   func(rt *rapid.T) { shelf.change(rt, x) },
				"use": func(rt *rapid.T) {
					for _, o := range owners() {
						l, ok := x.Held(o)
						if !ok {
							continue
						}
						for range l.Volumes {
							shelf.own(rt, q, l.Worker, o)
						}
						x.GiveBackUnused(o)
					}
				},
				"release": func(rt *rapid.T) {
					o := pick(rt, owners())
					if !x.Release(o) {
						rt.Fatalf("%s had no lease", o)
					}
					mu.Lock()
					delete(held, o)
					mu.Unlock()
				},
				"a minute passes": func(*rapid.T) { time.Sleep(time.Minute) }, // of the bubble, in which rapid has a day
				"cancel": func(rt *rapid.T) {
					var all []string
					for _, w := range q.Waiting() {
						all = append(all, w.Owner)
					}
					cancels[pick(rt, all)]()
				},
				"": func(rt *rapid.T) {
					synctest.Wait()
					reserved := map[string]bool{}
					for _, w := range q.Waiting() {
						full := false
						verdicts, err := q.Explain(w)
						if err == nil {
							rt.Fatalf("%s waits, but need not", w.Owner)
						}
						if w.Reserved != "" {
							i := slices.IndexFunc(verdicts, func(v pool.Verdict) bool { return v.Worker == w.Reserved })
							if i < 0 || !slices.Contains(waitsFor, verdicts[i].Reason) || reserved[w.Reserved] {
								rt.Fatalf("%s is reserved for %s: %+v", w.Reserved, w.Owner, verdicts)
							}
							reserved[w.Reserved] = true
						}
						for _, v := range verdicts {
							if v.Reason == pool.OK {
								rt.Fatalf("%s waits, but %s would do", w.Owner, v.Worker)
							}
							full = full || v.Reason.Full()
						}
						if !full {
							rt.Fatalf("%s waits in vain: %+v", w.Owner, verdicts)
						}
					}
				},
			})
		})
	})
}
