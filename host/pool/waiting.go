package pool

import (
	"errors"
	"math"
	"slices"
	"time"
)

// Waiter is one who waits.
type Waiter struct {
	Owner    string
	Spec     Spec
	Since    time.Time
	Passed   int       // how often later ones got a place on a worker that lacked only room for it, and took of that
	Reserved string    // the worker that is reserved for it; empty: none
	Until    time.Time // when that ends at the latest

	All bool // what [Queue.Explain] says names those of other teams, too: it is not for who waits

	query *query
}

// Team is whose it is; empty: everybody's.
func (w Waiter) Team() string {
	if w.query == nil {
		return w.Spec.Team
	}
	return w.query.spec.Team
}

// Waiting returns those who wait, in the order in which they would be served as things
// stand; each lease given changes the order between teams. What the workers lack for one
// of them [Queue.Explain] says.
func (q *Queue) Waiting() []Waiter {
	out := q.inOrder()
	for i := range out {
		out[i].Spec = out[i].query.spec.clone()
	}
	return out
}

// Find returns the first of those who wait for that owner, and its place in the order of
// [Queue.Waiting], from 1.
func (q *Queue) Find(owner string) (_ Waiter, position int, ok bool) {
	for i, w := range q.inOrder() {
		if w.Owner == owner {
			w.Spec = w.query.spec.clone()
			return w, i + 1, true
		}
	}
	return Waiter{}, 0, false
}

// Explain is [Placer.Explain] for one who waits, as Waiting and Find tell of it:
// it knows which worker is reserved for that one. The error is that of
// [Placer.Choose], nil once it has been placed or could be.
func (q *Queue) Explain(w Waiter) ([]Verdict, error) {
	x := q.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	verdicts := q.placer.explain(x, w.query)
	best, compatible := q.placer.best(x, w.query)
	var why error
	if best == nil {
		why = q.placer.refusal(x, w.query, compatible != nil)
	}
	if w.All {
		x.nameReserved(verdicts)
		if full, ok := errors.AsType[*FullError](why); ok {
			x.nameReserved(full.Reasons)
		}
	}
	return verdicts, why
}

// nameReserved has verdicts say for whom workers are reserved, whosever those are. The lock is held.
func (x *Index) nameReserved(verdicts []Verdict) {
	for i, v := range verdicts {
		if e := x.byName[v.Worker]; v.Reason == Reserved && e != nil && e.reserved != nil {
			verdicts[i].Detail = e.reserved.reservedText("")
		}
	}
}

// Before returns those who wait and would be served before one who came for s now, in that order.
func (q *Queue) Before(s Spec) []Waiter {
	all := q.inOrder()
	q.index.mu.RLock()
	defer q.index.mu.RUnlock()
	last := &waiter{query: &query{spec: s}, arrived: math.MaxUint64}
	return slices.DeleteFunc(all, func(w Waiter) bool {
		return q.before(last, &waiter{query: w.query})
	})
}

// left is for how much longer a worker is reserved for it at most, as people are told.
func (w *waiter) left() time.Duration {
	return max(time.Until(w.until), 0).Round(time.Second)
}

// inOrder returns those who wait, without their specs, which can be copied without a lock.
func (q *Queue) inOrder() []Waiter {
	q.index.mu.RLock()
	defer q.index.mu.RUnlock()
	waiters := slices.Clone(q.waiters)
	slices.SortFunc(waiters, func(a, b *waiter) int {
		if q.before(a, b) {
			return -1
		}
		return 1
	})
	out := make([]Waiter, len(waiters))
	for i, w := range waiters {
		out[i] = Waiter{Owner: w.owner, Since: w.since, Passed: w.passed, query: w.query}
		if w.reserved != nil {
			out[i].Reserved, out[i].Until = w.reserved.Name, w.until
		}
	}
	return out
}
