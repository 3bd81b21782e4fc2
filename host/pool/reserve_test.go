package pool_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/pool"
)

func volumes(n int) func(*pool.Worker) {
	return func(w *pool.Worker) { w.Limits.Volumes = n }
}

func (l *line) served(owner string) bool {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.choice[owner]
	return ok
}

// reserved checks for whom which worker is reserved, as "owner=worker", in the order of
// the queue.
func (l *line) reserved(want ...string) {
	l.t.Helper()
	synctest.Wait()
	var got []string
	for _, w := range l.q.Waiting() {
		if w.Reserved != "" {
			got = append(got, w.Owner+"="+w.Reserved)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		l.t.Fatalf("reserved %q, want %q", got, want)
	}
}

// crowded is a line in which "big" waits for all of a worker that small ones have, and
// has been passed once where one pass is enough: so "w" is reserved for it, and v1, v2
// have places there. One more, "small", waits.
func crowded(t *testing.T, more ...pool.Worker) *line {
	l := newLine(t, pool.Options{MaxPassed: 1}, append(more, running("w", volumes(2)))...)
	for _, o := range []string{"v0", "v1"} {
		if err := l.x.Acquire(pool.Lease{Owner: o, Worker: "w", Volumes: 1}); err != nil {
			t.Fatal(err)
		}
	}
	l.wait("big", pool.Spec{Volumes: 2})
	l.reserved()
	l.x.Release("v0")
	l.wait("v2", pool.Spec{Volumes: 1}) // an arrival passes as well as a waiter does
	l.want("v2")
	l.reserved("big=w")
	l.wait("small", pool.Spec{Volumes: 1})
	l.waiting("big", "small")
	return l
}

// One that claims much is passed by small ones for as long as they come, unless a worker is reserved for it.
func TestLargeClaimsAreNotPassedForEver(t *testing.T) {
	gib := func(n int64) pool.Resources { return pool.Resources{MemoryBytes: n << 30} }
	tests := []struct {
		name       string
		policy     pool.Policy
		limits     pool.Limits
		worker     pool.Worker
		big, small pool.Spec
	}{
		{"volumes", pool.Policy{}, pool.Limits{}, running("w", volumes(4)), pool.Spec{Volumes: 4}, pool.Spec{Volumes: 1}},
		{"memory", pool.Policy{}, pool.Limits{}, running("w", func(w *pool.Worker) { w.Capacity = gib(4) }),
			pool.Spec{Resources: gib(4)}, pool.Spec{Resources: gib(1)}},
		{"tasks by checks, which no limit holds back", pool.Policy{Build: []pool.Strategy{pool.LimitActiveContainers}},
			pool.Limits{Containers: 1}, running("w"), pool.Spec{}, pool.Spec{Kind: pool.Check}},
	}
	const atOnce, rounds = 4, 1000
	for _, tt := range tests {
		for _, reserve := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reserve=%t", tt.name, reserve), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := pool.Options{Limits: tt.limits}
					if !reserve {
						o.MaxPassed = -1
					}
					x, p := index(tt.worker), placer(t, tt.policy, o)
					l := &line{t: t, x: x, p: p, q: pool.NewQueue(x, p), errs: map[string]error{}, choice: map[string]pool.Choice{}}
					small := func(i int) string { return fmt.Sprint("small", i) }
					for i := range atOnce {
						l.wait(small(i), tt.small)
					}
					l.wait("big", tt.big)
					releases := 0
					for ; releases < rounds && !l.served("big"); releases++ {
						l.wait(small(atOnce+releases), tt.small)
						l.x.Release(small(releases))
					}
					if most := pool.DefaultMaxPassed + atOnce; reserve && releases > most {
						t.Errorf("placed after %d releases, want at most %d", releases, most)
					}
					if !reserve && releases < rounds {
						t.Errorf("without reservations it is placed after %d releases: this shows nothing", releases)
					}
				})
			})
		}
	}
}

func TestReservationEnds(t *testing.T) {
	tests := []struct {
		name     string
		more     []pool.Worker
		event    func(*line)
		got      map[string]string // besides v2, and where
		reserved []string
	}{
		{"with the place, once all is free", nil, func(l *line) {
			l.x.Release("v1")
			l.want("v2") // what is free now is not enough for big, and not for small
			l.x.Release("v2")
		}, map[string]string{"big": "w"}, nil},
		{"with a place elsewhere", nil, func(l *line) {
			l.x.Release("v1")
			l.x.Upsert(running("x", volumes(2)))
		}, map[string]string{"big": "x", "small": "w"}, nil},
		{"when its owner is found elsewhere", nil, func(l *line) {
			l.x.Release("v1")
			if err := l.x.Acquire(pool.Lease{Owner: "big", Worker: "x"}); err != nil {
				l.t.Fatal(err)
			}
		}, map[string]string{"big": "x", "small": "w"}, nil},
		{"when the worker is cordoned", []pool.Worker{running("a", volumes(2))}, func(l *line) {
			l.x.Upsert(running("w", volumes(2), func(w *pool.Worker) { w.State = pool.Cordoned }))
		}, nil, []string{"big=a"}},
		{"when the worker is removed", []pool.Worker{running("a", volumes(2))}, func(l *line) {
			l.x.Remove("w")
		}, nil, []string{"big=a"}},
		{"when the worker gets too small", []pool.Worker{running("a", volumes(2))}, func(l *line) {
			l.x.Release("v1")
			l.x.Upsert(running("w", volumes(1)))
			l.x.Release("v2")
		}, map[string]string{"small": "w"}, []string{"big=a"}},
		{"not when the worker pauses", nil, func(l *line) {
			l.x.Upsert(running("w", volumes(2), func(w *pool.Worker) { w.Paused = "its containers are away" }))
			l.x.Release("v1")
			l.x.Upsert(running("w", volumes(2)))
		}, nil, []string{"big=w"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for i := range tt.more {
					tt.more[i].Paused = "not yet"
				}
				l := crowded(t, tt.more...)
				for _, w := range tt.more { // full, too, so that it can be reserved
					if err := l.x.Acquire(pool.Lease{Owner: "on " + w.Name, Worker: w.Name, Volumes: 2}); err != nil {
						t.Fatal(err)
					}
					w.Paused = ""
					l.x.Upsert(w)
				}
				tt.event(l)
				l.reserved(tt.reserved...)
				for _, o := range []string{"big", "small"} {
					if !l.served(o) && tt.got[o] != "" || l.choice[o].Worker != tt.got[o] {
						t.Errorf("%s has got %q, want %q", o, l.choice[o].Worker, tt.got[o])
					}
				}
			})
		})
	}
}

func TestReservationEndsWithItsWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{MaxPassed: 1}, running("w", volumes(2)))
		l.wait("v0", pool.Spec{Volumes: 1})
		cancel := l.wait("big", pool.Spec{Volumes: 2})
		l.wait("v1", pool.Spec{Volumes: 1})
		l.reserved("big=w")
		l.x.Release("v0")
		l.wait("small", pool.Spec{Volumes: 1})
		l.want("v0", "v1")
		cancel()
		if err := l.err("big"); err == nil {
			t.Fatal("no error")
		}
		l.want("v0", "v1", "small")

		l.wait("late", pool.Spec{Volumes: 2, WaitLimit: time.Second})
		l.x.Release("v1")
		l.wait("v2", pool.Spec{Volumes: 1})
		l.reserved("late=w")
		l.x.Release("small")
		l.wait("last", pool.Spec{Volumes: 1})
		l.waiting("late", "last")
		if err := l.err("late"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // of the bubble
		if err := l.err("late"); !errors.As(err, new(*pool.WaitError)) {
			t.Errorf("past its limit: %v", err)
		}
		l.want("v0", "v1", "small", "v2", "last")
	})
}

// What stands in the way may be there to stay: the worker is not kept for longer than
// the waiter had waited, and a minute.
func TestReservationLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{MaxPassed: 2}, running("w", volumes(2)))
		l.wait("stays", pool.Spec{Volumes: 1})
		l.wait("big", pool.Spec{Volumes: 2})
		l.wait("v0", pool.Spec{Volumes: 1})
		l.reserved()
		pass := func(from, to string) {
			t.Helper()
			l.x.Release(from)
			l.wait(to, pool.Spec{Volumes: 1})
		}
		pass("v0", "v1")
		l.reserved("big=w")
		pass("v1", "v2")
		l.waiting("big", "v2")
		time.Sleep(time.Minute - 1) // of the bubble, as below
		l.waiting("big", "v2")
		time.Sleep(time.Nanosecond)
		l.want("stays", "v0", "v1", "v2")
		l.reserved()
		time.Sleep(9 * time.Minute) // big waits for ten minutes now
		pass("v2", "v3")
		l.reserved("big=w") // passed by v2 and v3
		pass("v3", "v4")
		time.Sleep(10*time.Minute - 1)
		l.waiting("big", "v4")
		l.x.Release("stays")
		l.want("stays", "v0", "v1", "v2", "v3", "big")
	})
}

// A higher priority is placed on a reserved worker, and takes it over once it has been passed itself.
func TestPriorityGoesBeforeReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := crowded(t)
		l.x.Release("v1")
		l.wait("urgent", pool.Spec{Volumes: 1, Priority: 1})
		l.want("v2", "urgent")
		l.reserved("big=w")
		l.wait("vast", pool.Spec{Volumes: 2, Priority: 2})
		l.x.Release("v2")
		l.waiting("vast", "big", "small")
		l.reserved("big=w")
		l.wait("urgent2", pool.Spec{Volumes: 1, Priority: 1}) // passes vast, and big by right
		l.want("v2", "urgent", "urgent2")
		l.reserved("vast=w")
		l.wait("urgent3", pool.Spec{Volumes: 1, Priority: 1})
		l.x.Release("urgent")
		l.waiting("vast", "urgent3", "big", "small")
		l.x.Release("urgent2")
		l.want("v2", "urgent", "urgent2", "vast")
		if w, _, _ := l.q.Find("big"); w.Passed != 1 {
			t.Errorf("those of a higher priority count as having passed: %+v", w)
		}
	})
}

// Whoever comes, whatever it claims, and whichever lease ends next: if each lease ends
// in the end, each waiter is placed after a bounded number of releases. Within one team,
// and between teams as well, where one may have to wait until its own have ended.
func TestEachIsPlacedInTheEnd(t *testing.T) {
	const slots, crowd = 4, 4 // places on a worker, waiters at a time
	synctest.Test(t, func(t *testing.T) {
		// Hides Deadline, which has no meaning in a bubble.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			workers := rapid.IntRange(1, 3).Draw(rt, "workers")
			teams := rapid.IntRange(1, 2).Draw(rt, "teams")
			passed := rapid.IntRange(1, 6).Draw(rt, "max passed")
			x := pool.NewIndex()
			for i := range workers {
				x.Upsert(running(fmt.Sprint("w", i), volumes(slots), func(w *pool.Worker) { w.Capacity.CPUMillis = slots }))
			}
			q := pool.NewQueue(x, placer(t, pool.Policy{}, pool.Options{MaxPassed: passed}))

			// After age releases a lease is among those that end next, at most so many as there are
			// leases. A waiter comes after those before it, is passed so often, once more for each that
			// gets a reservation before it does, and then waits for what is on one worker.
			leases := slots * workers
			age := 2 * leases
			bound := passed + 2*crowd + 2*(age+leases)
			if teams > 1 { // each place of its team before its own may keep it back until that has ended
				bound *= passed + crowd + 1
			}
			var mu sync.Mutex // protects held
			held := map[string]int{}
			waited := map[string]int{}
			releases, owners := 0, 0
			for range 2*bound + 20 {
				for len(q.Waiting()) < crowd {
					owner := fmt.Sprint("o", owners)
					claims := rapid.SampledFrom([]int{1, 1, 1, 1, 2, slots}).Draw(rt, "claims")
					s := pool.Spec{Team: fmt.Sprint(rapid.IntRange(1, teams).Draw(rt, "team")), Volumes: claims}
					if rapid.Bool().Draw(rt, "cpu") {
						s.Volumes, s.Resources.CPUMillis = 1, int64(claims)
					}
					owners++
					wg.Go(func() {
						if _, err := q.Acquire(ctx, owner, s); err != nil {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						held[owner] = releases
					})
					synctest.Wait()
				}
				mu.Lock()
				var all []string
				for o := range held {
					all = append(all, o)
				}
				slices.SortFunc(all, func(a, b string) int { // the oldest first
					return cmp.Or(cmp.Compare(held[a], held[b]), cmp.Compare(a, b))
				})
				next := all[0]
				if releases-held[next] < age {
					next = rapid.SampledFrom(all).Draw(rt, "release")
				}
				delete(held, next)
				releases++
				mu.Unlock()
				x.Release(next)
				synctest.Wait()
				for _, w := range q.Waiting() {
					if waited[w.Owner]++; waited[w.Owner] > bound {
						rt.Fatalf("%s waits after %d releases, passed by %d: %+v", w.Owner, bound, w.Passed, w.Spec)
					}
				}
			}
		})
	})
}
