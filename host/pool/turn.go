package pool

import "context"

// Turn is what somebody waits for besides a place, and takes in the moment in which the place is given: so nobody who waits for a place keeps
// another from his turn, and nobody who waits for his turn keeps a place. Its methods are called with the index locked: they must not wait, nor
// call the index or a queue.
type Turn interface {
	// Free is nil if Take would take the turn now, and else says what stands in the way. Whoever makes it nil calls [Queue.TurnsFreed].
	Free() error
	// Take takes the turn, unless it is not free. The place is given with it.
	Take() bool
}

// AcquireInTurn is Acquire for an owner that needs a turn as well: a nil error means that it has both, but where the owner held a lease already
// (Choice.Held), for which no turn is taken. It always waits; a wait limit that passes while a worker has room, and only the turn is lacking,
// begins anew.
func (q *Queue) AcquireInTurn(ctx context.Context, owner string, s Spec, t Turn) (Choice, error) {
	return q.acquire(ctx, owner, s, t)
}

// TurnsFreed gives places to those who could have had one before, but for their turns. It is called after every change by which a turn may have
// become free; those who wait for nothing but a turn come after it, so that a place does not stand idle.
func (q *Queue) TurnsFreed() {
	q.index.mu.Lock()
	defer q.index.mu.Unlock()
	defer q.index.settle()
	for {
		var first *waiter
		for _, w := range q.waiters {
			if w.barred && w.mayGo() && (first == nil || q.before(w, first)) {
				first = w
			}
		}
		if first == nil {
			return
		}
		best, _ := q.placer.best(q.index, first.query)
		if best == nil { // the room has gone meanwhile: it waits for that
			first.barred = false
			continue
		}
		q.give(first, best, true)
	}
}

// mayGo reports whether w would have its turn now. The index is locked.
func (w *waiter) mayGo() bool { return w.turn == nil || w.turn.Free() == nil }

// takeTurn takes the turn of w, which is about to get a place. Without one, it is noted that only the turn is lacking. The index is locked.
func (w *waiter) takeTurn() bool {
	w.barred = w.turn != nil && !w.turn.Take()
	return !w.barred
}

// bar notes that w could have a place on e but for its turn. A worker that is reserved for it has served, and is not kept idle until the turn
// comes. The index is locked; settle comes after.
func (w *waiter) bar(x *Index, e *entry) {
	w.barred = true
	if w.reserved == e {
		x.unreserve(w)
	}
}
