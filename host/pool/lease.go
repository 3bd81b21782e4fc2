package pool

import (
	"cmp"
	"fmt"
	"slices"
)

// Lease is an owner's claim on a worker's capacity.
type Lease struct {
	Owner   string // its key
	Worker  string
	Team    string // whose share of the queue it counts against
	Kind    Kind   // any but NoInput and Check counts as Build
	Volumes int    // how many volumes of its own its container is still to get

	Resources Resources // that are promised to it
}

// HeldError says that the owner has a lease on another worker. Release it first.
type HeldError struct {
	Owner  string
	Held   string // the worker it has
	Wanted string // the worker it asked for
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease worker %q to %q: it holds a lease on worker %q: release that first", e.Wanted, e.Owner, e.Held)
}

// Acquire records a lease that is a fact already, as on recovery: it heeds no
// limit. To be given one, use Queue.Acquire. Acquiring the same worker for the
// same owner again changes nothing; another worker is a *HeldError.
func (x *Index) Acquire(l Lease) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.leases[l.Owner]; ok {
		if old.Worker != l.Worker {
			return &HeldError{Owner: l.Owner, Held: old.Worker, Wanted: l.Worker}
		}
		return nil
	}
	l.Volumes, l.Resources = max(l.Volumes, 0), l.Resources.positive()
	x.lease(x.entry(l.Worker), grant{Lease: l})
	x.settle()
	return nil
}

// Release ends the owner's lease, and reports whether there was one. What the owner had on the worker is gone: whoever waits because the worker
// said that it had no room is next to ask it.
func (x *Index) Release(owner string) bool { return x.end(owner, true) }

// GiveBack is Release for an owner that had nothing on the worker yet.
func (x *Index) GiveBack(owner string) bool { return x.end(owner, false) }

func (x *Index) end(owner string, freed bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	l, ok := x.leases[owner]
	if !ok {
		return false
	}
	delete(x.leases, owner)
	if x.held[l.Team]--; x.held[l.Team] == 0 {
		delete(x.held, l.Team)
	}
	e := x.byName[l.Worker]
	e.count(l.Lease, -1)
	x.claim(e, l, -1)
	if freed {
		for _, q := range x.queues {
			q.freed(e)
		}
	}
	x.changed(e)
	x.forget(e)
	return true
}

// Held returns the owner's lease, if it has one.
func (x *Index) Held(owner string) (Lease, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l, ok := x.leases[owner]
	return l.Lease, ok
}

// Leases returns the leases on a worker, sorted by owner.
func (x *Index) Leases(worker string) []Lease {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []Lease
	for _, l := range x.leases {
		if l.Worker == worker {
			out = append(out, l.Lease)
		}
	}
	slices.SortFunc(out, func(a, b Lease) int { return cmp.Compare(a.Owner, b.Owner) })
	return out
}

// lease records l, whose owner has none, and tells all who wait for that owner.
// The lock is held.
func (x *Index) lease(e *entry, g grant) {
	x.leases[g.Owner] = g
	x.held[g.Team]++
	e.count(g.Lease, 1)
	x.claim(e, g, 1)
	if e.reserved != nil && len(g.keys) > 0 { // whoever needs the same there takes less now
		x.again = append(x.again, e)
	}
	for _, q := range x.queues {
		q.share(g.Owner, e.Name)
	}
}

func (e *entry) count(l Lease, n int) {
	switch l.Kind {
	case Check:
		e.usage.Check += n
	case NoInput:
		e.usage.NoInput += n
	default:
		e.usage.Build += n
	}
	e.usage.ClaimedVolumes += n * l.Volumes
	e.usage.Resources = e.usage.Resources.plus(l.Resources, int64(n))
}
