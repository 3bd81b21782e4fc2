package pool_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

// gate lets so many take their turn.
type gate struct{ left atomic.Int64 }

var errShut = errors.New("the gate is shut")

func (g *gate) Free() error {
	if g.left.Load() <= 0 {
		return errShut
	}
	return nil
}

func (g *gate) Take() bool {
	if g.left.Load() <= 0 { // under the index's lock, as all that take are
		return false
	}
	g.left.Add(-1)
	return true
}

// waitInTurn is wait for one that needs a turn as well.
func (l *line) waitInTurn(owner string, s pool.Spec, g *gate) {
	go func() {
		c, err := l.q.AcquireInTurn(l.t.Context(), owner, s, g)
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
}

// TestPlaceIsGivenWithTheTurn: who needs a turn gets a place only with it, is passed by who needs none, and keeps its place in the queue.
func TestPlaceIsGivenWithTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(1)))
		var g gate
		l.waitInTurn("first", pool.Spec{}, &g)
		l.waitInTurn("second", pool.Spec{}, &g)
		if w, _, ok := l.q.Find("first"); !ok || w.Barred != errShut {
			t.Errorf("told as %+v", w)
		}
		l.wait("free", pool.Spec{})
		l.want("free")
		l.wait("later", pool.Spec{})
		l.x.Release("free")
		l.want("free", "later")
		g.left.Store(1)
		l.q.TurnsFreed() // there is no room
		if w, _, ok := l.q.Find("first"); !ok || w.Barred != nil {
			t.Errorf("told as %+v", w)
		}
		l.x.Release("later")
		l.want("free", "later", "first")
		l.x.Release("first")
		l.waiting("second")
		g.left.Store(1)
		l.q.TurnsFreed()
		l.want("free", "later", "first", "second")
	})
}

// TestWaitLimitWithoutATurn: a wait limit that passes while only the turn is lacking begins anew, and holds again where the place is.
func TestWaitLimitWithoutATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, pool.Options{}, running("w", limited(1)))
		var g gate
		l.waitInTurn("waits", pool.Spec{WaitLimit: time.Second}, &g)
		time.Sleep(2500 * time.Millisecond)
		l.waiting("waits")
		l.wait("free", pool.Spec{})
		l.want("free")
		time.Sleep(time.Second)
		if err := l.err("waits"); !errors.As(err, new(*pool.WaitError)) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// TestNoWorkerIsReservedWithoutATurn: who has no turn is not passed, and a worker that was reserved for it is not kept idle when it could take it.
func TestNoWorkerIsReservedWithoutATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		big, small := pool.Spec{Resources: pool.Resources{MemoryBytes: 2}}, pool.Spec{Resources: pool.Resources{MemoryBytes: 1}}
		l := newLine(t, pool.Options{MaxPassed: 1}, running("w", func(w *pool.Worker) { w.Capacity.MemoryBytes = 2 }))
		l.wait("1", small)
		var g gate
		l.waitInTurn("big", big, &g)
		l.wait("2", small)
		if w, _, _ := l.q.Find("big"); w.Passed != 0 || w.Reserved != "" {
			t.Errorf("without a turn it is passed: %+v", w)
		}
		g.left.Store(1)
		l.x.Release("2")
		l.wait("3", small)
		if w, _, _ := l.q.Find("big"); w.Reserved != "w" {
			t.Errorf("with its turn free it is passed, and nothing is reserved: %+v", w)
		}
		g.left.Store(0)
		l.wait("4", small)
		l.x.Release("1")
		l.want("1", "2", "3") // what is free is kept for it until it fits
		l.x.Release("3")
		l.want("1", "2", "3", "4")
	})
}

// TestTurnsAtRandom: nobody who has both a place and a turn free waits on, whatever comes and goes in whatever order.
func TestTurnsAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			l := newLine(t, pool.Options{}, running("v", limited(1)), running("w", limited(2)))
			gates := [2]gate{}
			owners := 0
			for range 200 {
				g := &gates[rnd.IntN(2)]
				switch rnd.IntN(4) {
				case 0:
					owners++
					l.waitInTurn(time.Duration(owners).String(), pool.Spec{Priority: rnd.IntN(2)}, g)
				case 1:
					g.left.Add(1)
					l.q.TurnsFreed()
				case 2:
					g.left.Store(0)
				default:
					if all := append(l.x.Leases("v"), l.x.Leases("w")...); len(all) > 0 {
						l.x.Release(all[rnd.IntN(len(all))].Owner)
					}
				}
				synctest.Wait()
				room := l.x.Usage("v").Build < 1 || l.x.Usage("w").Build < 2
				for _, w := range l.q.Waiting() {
					if _, why := l.q.Explain(w); (why == nil) != room || room && w.Barred == nil {
						t.Fatalf("seed %d: %s waits, with room: %v, for its turn: %v (%v)", seed, w.Owner, room, w.Barred, why)
					}
				}
			}
			for range owners {
				gates[0].left.Add(1)
				gates[1].left.Add(1)
				l.q.TurnsFreed()
				for _, w := range []string{"v", "w"} {
					for _, lease := range l.x.Leases(w) {
						l.x.Release(lease.Owner)
					}
				}
			}
			l.waiting()
		})
	}
}
