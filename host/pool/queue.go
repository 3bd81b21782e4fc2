package pool

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Queue gives out places, and lets specs wait for one.
//
// A place that comes free goes to the waiter of the highest priority; among
// those, to one of the team that holds the fewest leases; among those, to one of
// the team that was served the longest ago; then to the one that came first.
// Only waiters for which the place will do are asked, so one that claims much can
// be passed by smaller ones that come after it in that order. Once that has
// happened Options.MaxPassed times, a worker is reserved for it: nobody of the
// same or a lower priority who would take of what it waits for is placed there any
// more until it fits. See reserve.go.
// To be passed by a higher priority, or by a team that holds less, is the order
// itself and has no bound but the wait limit.
//
// There is one invariant, kept under the index's lock: no waiter could be placed
// now, where a reserved worker takes only the waiter it is reserved for, those
// of a higher priority, and those that are not in its way. Each event (a worker added, changed or removed, a lease or
// a volume gone, a reservation ended) touches one worker, so it is enough to offer
// that one to the waiters; and an arrival that finds a place free passes nobody
// who could have had it.
//
// Queues on one index share its capacity; make one. A Queue needs no closing: it
// has no goroutine, and each waiter ends with its context.
type Queue struct {
	placer *Placer
	index  *Index

	unplaced chan struct{} // of capacity 1

	// Protected by index.mu.
	waiters []*waiter
	served  map[string]uint64 // by team, when a waiter of it last got a place
	turn    uint64            // counts places given to waiters
	arrived uint64            // counts arrivals
}

type waiter struct {
	owner   string
	query   *query
	since   time.Time
	arrived uint64

	// Protected by index.mu until woken is closed.
	place    int    // in Queue.waiters; -1 if it is not there
	witness  *entry // a compatible worker, full
	choice   Choice
	woken    chan struct{}  // closed with the choice made, or none: look again
	passed   int            // places given to later ones on workers that lacked nothing but room for it
	reserved *entry         // the worker that is reserved for it
	until    time.Time      // when that ends at the latest
	told     chan time.Time // until, of each new reservation; holds one
}

// NewQueue returns a queue over the index.
func NewQueue(x *Index, p *Placer) *Queue {
	q := &Queue{placer: p, index: x, unplaced: make(chan struct{}, 1), served: make(map[string]uint64)}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues = append(x.queues, q)
	return q
}

// Acquire chooses a worker for the spec and leases it to the owner, in one step.
// An owner that holds a lease gets its worker again, whatever the spec.
//
// A nil error means that the owner has the lease, until Index.Release; several
// callers for one owner share one lease. Otherwise this call has left nothing
// behind, and the error is a
// *NoWorkerError, at once or as soon as the last compatible worker goes; a
// *FullError if the spec says not to wait; a *WaitError once its wait limit has
// passed; or that of ctx. A place that is given in the moment in which ctx ends
// is the owner's: the error is nil then.
func (q *Queue) Acquire(ctx context.Context, owner string, s Spec) (Choice, error) {
	if err := ctx.Err(); err != nil {
		return Choice{}, fmt.Errorf("wait for a place for %q: %w", owner, err)
	}
	w := &waiter{owner: owner, query: q.placer.query(q.index, s.clone()), since: time.Now(), place: -1}
	limit := cmp.Or(s.WaitLimit, q.placer.rules.Load().waitLimit)
	var late, again <-chan struct{}
	var lapse <-chan time.Time
	anew := false
	for {
		standing := q.enter(w, limit >= 0, anew)
		anew = false
		switch standing {
		case placed:
			return w.choice, nil
		case refused:
			if err := q.refusal(w.query, limit >= 0); err != nil {
				return Choice{}, err
			}
			continue
		}
		if limit > 0 && late == nil {
			timer, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer stop()
			late = timer.Done()
		}
		if s.RetryIn > 0 && len(s.Exhausted) > 0 && again == nil {
			timer, stop := context.WithTimeout(context.WithoutCancel(ctx), s.RetryIn)
			defer stop()
			again = timer.Done()
		}
		select {
		case <-w.woken:
			if w.choice.Worker != "" {
				return w.choice, nil
			}
		case <-ctx.Done():
			if q.leave(w) {
				return w.choice, nil
			}
			return Choice{}, fmt.Errorf("wait for a place for %q: %w", owner, ctx.Err())
		case <-again:
			s.RetryIn, again, anew = 0, nil, true
		case until := <-w.told:
			lapse = time.After(time.Until(until))
		case <-lapse:
			lapse = nil
			q.lapse(w)
		case <-late:
			if q.leave(w) {
				return w.choice, nil
			}
			if err := q.refusal(w.query, false); err != nil {
				return Choice{}, &WaitError{Owner: owner, Waited: time.Since(w.since), Cause: err}
			}
		}
	}
}

// SetRules changes the policy, limits, wait limit and how many may pass of the queue's placer: those of o, whose source of chance stays as it was. They hold for
// those who wait, too, but for the wait limit; places that are given, and reservations that have begun, stay so. After an error, a *StrategyError, nothing has changed.
func (q *Queue) SetRules(p Policy, o Options) error {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return err
	}
	r := newRules(p, o)
	x := q.index
	x.mu.Lock()
	defer x.mu.Unlock()
	q.placer.rules.Store(r)
	for _, w := range q.waiters {
		w.query.obey(r)
	}
	for _, e := range x.slots {
		if e != nil {
			x.changed(e)
		}
	}
	return nil
}

// What becomes of an arrival.
const (
	placed = iota
	refused
	linedUp
)

// enter places w, or lines it up, or refuses it. Anew, it asks the workers again
// that had said that they had no room for it.
func (q *Queue) enter(w *waiter, wait, anew bool) int {
	x := q.index
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.settle()
	if w.choice.Worker != "" {
		return placed // meanwhile
	}
	if anew {
		clear(w.query.exhausted)
	} else if w.place >= 0 {
		return linedUp
	}
	if l, ok := x.leases[w.owner]; ok {
		w.choice = Choice{Worker: l.Worker, Held: true}
		return placed
	}
	w.query.obey(q.placer.rules.Load()) // which may have changed since it came
	if w.arrived == 0 {
		q.arrived++
		w.arrived = q.arrived
	}
	best, compatible := q.placer.best(x, w.query)
	if best != nil {
		w.choice = q.placer.choice(x, w.query, best)
		if w.place >= 0 {
			q.remove(w)
		}
		q.pass(w, best)
		q.lease(w, best)
		return placed
	}
	if w.place >= 0 {
		return linedUp
	}
	if compatible == nil || !wait {
		return refused
	}
	w.witness, w.woken, w.told, w.place = compatible, make(chan struct{}), make(chan time.Time, 1), len(q.waiters)
	q.waiters = append(q.waiters, w)
	q.Nudge()
	return linedUp
}

// refusal is the error for a query that nothing takes, nil if that has changed
// meanwhile. It is made with readers let in, for it looks at every worker.
func (q *Queue) refusal(query *query, wait bool) error {
	x := q.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	best, compatible := q.placer.best(x, query)
	if best != nil || compatible != nil && wait {
		return nil
	}
	return q.placer.refusal(x, query, compatible != nil)
}

// leave takes w out, and reports whether it had been given a place meanwhile.
func (q *Queue) leave(w *waiter) bool {
	q.index.mu.Lock()
	defer q.index.mu.Unlock()
	defer q.index.settle()
	if w.place >= 0 {
		q.remove(w)
	}
	return w.choice.Worker != ""
}

// changed offers e to the waiters, and sends those that have lost their last
// compatible worker to look again. The index is locked.
func (q *Queue) changed(e *entry) {
	for w, passes := q.next(e, (*query).judge); w != nil; w, passes = q.next(e, (*query).judge) {
		q.give(w, e, passes)
	}
	for i := len(q.waiters) - 1; i >= 0; i-- {
		w := q.waiters[i]
		if w.witness != e || w.query.judge(e).Compatible() {
			continue
		}
		if w.witness = q.witness(w); w.witness == nil {
			q.wake(w)
		}
	}
	if len(q.waiters) > 0 {
		q.Nudge()
	}
}

// freed gives e to the first of all whom it would suit, those among them that it has told that it had no room: what was freed may be
// enough for that one, and hardly for all of them. The index is locked.
func (q *Queue) freed(e *entry) {
	if w, passes := q.next(e, (*query).judgeAnew); w != nil {
		delete(w.query.exhausted, e.Name)
		q.give(w, e, passes)
	}
}

// give places w on e. Where passes is false nobody is passed by that, which saves
// looking for them.
func (q *Queue) give(w *waiter, e *entry, passes bool) {
	if passes {
		q.pass(w, e)
	}
	q.turn++
	q.served[w.query.spec.Team] = q.turn
	w.choice = q.placer.choice(q.index, w.query, e)
	q.wake(w)
	q.lease(w, e)
}

// next returns the waiter that e goes to, nil if it suits none, and whether that
// one may pass others for which e lacks nothing but room.
func (q *Queue) next(e *entry, judge func(*query, *entry) Reason) (first *waiter, passes bool) {
	for _, w := range q.waiters {
		if first != nil && !q.before(w, first) {
			continue
		}
		switch r := judge(w.query, e); {
		case r == OK:
			first = w
		case r.lacking():
			passes = true
		}
	}
	return first, passes
}

// before reports whether a comes before b.
func (q *Queue) before(a, b *waiter) bool {
	s, t := &a.query.spec, &b.query.spec
	if s.Priority != t.Priority {
		return s.Priority > t.Priority
	}
	if s.Team != t.Team {
		held := q.index.held
		if held[s.Team] != held[t.Team] {
			return held[s.Team] < held[t.Team]
		}
		if q.served[s.Team] != q.served[t.Team] {
			return q.served[s.Team] < q.served[t.Team]
		}
	}
	return a.arrived < b.arrived
}

// witness returns a worker that is compatible, nil if none is.
func (q *Queue) witness(w *waiter) *entry {
	for _, e := range q.index.slots {
		if e != nil && w.query.judge(e).Compatible() {
			return e
		}
	}
	return nil
}

// share gives the worker to all callers that wait for that owner.
func (q *Queue) share(owner, worker string) {
	for i := len(q.waiters) - 1; i >= 0; i-- {
		if w := q.waiters[i]; w.owner == owner {
			w.choice = Choice{Worker: worker, Held: true}
			q.wake(w)
		}
	}
}

func (q *Queue) lease(w *waiter, e *entry) {
	s := &w.query.spec
	q.index.lease(e, grant{keys: w.query.keys, endless: w.query.limitsOf(e).Volumes == 0,
		Lease: Lease{Owner: w.owner, Worker: e.Name, Team: s.Team, Kind: s.Kind, Volumes: s.Volumes, Resources: s.Resources}})
}

func (q *Queue) wake(w *waiter) {
	q.remove(w)
	close(w.woken)
}

func (q *Queue) remove(w *waiter) {
	last := q.waiters[len(q.waiters)-1]
	q.waiters[w.place] = last
	last.place = w.place
	q.waiters[len(q.waiters)-1] = nil
	q.waiters = q.waiters[:len(q.waiters)-1]
	w.place, w.witness = -1, nil
	q.index.unreserve(w)
	if len(q.waiters) == 0 {
		clear(q.served)
	}
}
