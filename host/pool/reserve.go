package pool

import (
	"slices"
	"time"
)

// A waiter that claims much fits only where much is free at once, and as long as
// smaller ones take each place as it comes free, that may never be. So places
// given past it are counted, and once they are Options.MaxPassed, the worker on
// which it was passed last, which is one where places do come free, is reserved
// for it: what is or becomes free there goes to it alone, or to a waiter or an
// arrival of a higher priority, which comes first anywhere. Leases that are there
// stay as they are. One that takes nothing of what it waits for, such as a check
// where it waits for volumes, is in nobody's way: that is placed there as ever,
// and passes nobody.
//
// A worker is reserved for one waiter at most, and a waiter has one worker at
// most; one of a higher priority may take a worker over. The reservation ends
//
//   - when the waiter is placed, there or elsewhere, or leaves;
//   - when the worker can no longer take it: another is chosen then, if there is
//     one, that with the fewest leases;
//   - when it has lasted as long as the waiter had waited before it began, and a
//     minute at least. What stands in the way may be there to stay, such as a
//     container that somebody keeps; without this end a single waiter could keep a
//     worker idle, or all of a host of one worker, for good. Being passed is
//     counted from nothing then. Each reservation may so last longer than the one
//     before, and in the end one is long enough for all that does come to an end.

// DefaultMaxPassed is Options.MaxPassed where that is zero. A reservation leaves
// room unused, so chance is given a few dozen places first, which is what a
// handful of workers give out in one round of their work; and a waiter that was
// passed so often has not been unlucky but stands no chance.
const DefaultMaxPassed = 32

// minReserved is how long a reservation lasts at least, unless it has served.
const minReserved = time.Minute

// pass notes that v is about to get a place on e, and so passes those that come
// before it and for which e lacks only room. The first of those that have been
// passed too often has e reserved; the others wait for the next time. The index is
// locked.
func (q *Queue) pass(v *waiter, e *entry) {
	q.index.unreserve(v) // it needs none any more
	most := q.placer.rules.Load().maxPassed
	var first *waiter
	for _, w := range q.waiters {
		if w == v || !q.before(w, v) || !w.query.judge(e).lacking() || !v.query.hinders(w.query, e) {
			continue
		}
		w.passed++
		if most >= 0 && w.passed >= most && w.reserved == nil && (first == nil || q.before(w, first)) {
			first = w
		}
	}
	if first != nil {
		q.index.reserve(e, first)
	}
}

// reserve reserves e, which lacks only room, for w, which has none. One of a lower
// priority that had it gets another. The lock is held.
func (x *Index) reserve(e *entry, w *waiter) {
	before := e.reserved
	e.reserved, w.reserved = w, e
	now := time.Now()
	w.until = now.Add(max(now.Sub(w.since), minReserved))
	select {
	case <-w.told: // of an earlier one
	default:
	}
	w.told <- w.until
	if before != nil {
		before.reserved = nil
		x.reserveAny(before)
	}
}

// reserveAny reserves a worker for w, which has none, if one can be: rather one
// that nobody has, and of those the one with the fewest leases. The lock is held.
func (x *Index) reserveAny(w *waiter) {
	better := func(a, b *entry) bool {
		if (a.reserved == nil) != (b.reserved == nil) {
			return a.reserved == nil
		}
		return a.usage.containers() < b.usage.containers()
	}
	var best *entry
	for _, e := range x.slots {
		if e != nil && w.query.judge(e).lacking() && (best == nil || better(e, best)) {
			best = e
		}
	}
	if best != nil {
		x.reserve(best, w)
	}
}

// unreserve ends the reservation for w, if there is one; settle offers the worker
// to others. The lock is held.
func (x *Index) unreserve(w *waiter) {
	e := w.reserved
	if e == nil {
		return
	}
	e.reserved, w.reserved = nil, nil
	x.again = append(x.again, e)
}

// recheck moves the reservation of e to another worker if e can no longer take the
// waiter that it is reserved for. A worker that told it that it had no room, for
// reasons that are not known here, would be kept idle in vain. The lock is held.
func (x *Index) recheck(e *entry) {
	w := e.reserved
	if w == nil {
		return
	}
	if r := w.query.judge(e); r.Compatible() && r != FullItself {
		return
	}
	x.unreserve(w)
	x.reserveAny(w)
}

// settle offers the workers whose reservations have ended, or are in the way of
// less, to all who wait. It comes last in whatever may have made one so. The lock
// is held.
func (x *Index) settle() {
	for len(x.again) > 0 {
		last := len(x.again) - 1
		e := x.again[last]
		x.again[last] = nil
		x.again = x.again[:last]
		x.offer(e)
	}
}

// hinders reports whether w would lack something on e, were e given to q, of which
// q takes some. The lock is held.
func (q *query) hinders(w *query, e *entry) bool {
	l := w.limitsOf(e)
	if l.Containers > 0 && e.usage.containers()+1 >= l.Containers {
		return true
	}
	if l.Tasks > 0 && w.spec.Kind != Check && q.spec.Kind != Check && e.usage.tasks()+1 >= l.Tasks {
		return true
	}
	if l.Volumes > 0 {
		takes := q.spec.Volumes
		for _, d := range q.keys { // what both need there is no more for w
			takes += count(q.brings(e, d) && !slices.Contains(w.keys, d))
		}
		if takes > 0 && w.lacksVolumes(e, l.Volumes)+takes > 0 {
			return true
		}
	}
	_, no := over(e.Capacity, e.usage.Resources.plus(q.spec.Resources, 1), w.spec.Resources.only(q.spec.Resources))
	return no
}

// lapse ends the reservation for w if its time has come.
func (q *Queue) lapse(w *waiter) {
	q.index.mu.Lock()
	defer q.index.mu.Unlock()
	defer q.index.settle()
	if w.reserved == nil || time.Now().Before(w.until) {
		return
	}
	w.passed = 0
	q.index.unreserve(w)
}
