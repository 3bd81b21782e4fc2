package pool

import "fmt"

// Lease is an owner's claim on a worker's capacity.
type Lease struct {
	Owner   string // its key
	Worker  string
	Team    string // whose share of the queue it counts against
	Kind    Kind   // any but NoInput and Check counts as Build
	Volumes int    // how many volumes it claims
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
	l.Volumes = max(l.Volumes, 0)
	x.lease(x.entry(l.Worker), l)
	return nil
}

// Release ends the owner's lease, and reports whether there was one.
func (x *Index) Release(owner string) bool {
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
	e.count(l, -1)
	x.changed(e)
	x.forget(e)
	return true
}

// Held returns the owner's lease, if it has one.
func (x *Index) Held(owner string) (Lease, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l, ok := x.leases[owner]
	return l, ok
}

// lease records l, whose owner has none, and tells all who wait for that owner.
// The lock is held.
func (x *Index) lease(e *entry, l Lease) {
	x.leases[l.Owner] = l
	x.held[l.Team]++
	e.count(l, 1)
	for _, q := range x.queues {
		q.share(l.Owner, e.Name)
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
}
