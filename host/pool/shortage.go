package pool

import "slices"

// Shortage is a waiter that would have its place if some worker had fewer volumes.
type Shortage struct {
	Waiter
	Workers []Lack // never empty
}

// Lack is how many volumes a worker has too many for a waiter that it lacks nothing else for.
type Lack struct {
	Worker string
	Lacks  int // at least one
	Wants  int // how many volumes the waiter would add
	Going  int // volumes that are to be destroyed there
}

// Shortages returns those of the first so many waiters that lack nothing but room for volumes, in the order in which they would be served.
func (q *Queue) Shortages(first int) []Shortage {
	if !q.limitsVolumes() {
		return nil
	}
	waiters := q.inOrder()
	var out []Shortage
	x := q.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, w := range waiters[:min(first, len(waiters))] {
		if _, placed := x.leases[w.Owner]; placed { // meanwhile
			continue
		}
		w.Spec = w.query.spec.clone()
		s := Shortage{Waiter: w}
		for _, e := range x.slots {
			if e != nil && w.query.judge(e) == FullVolumes && !w.query.lacksResources(e) {
				s.Workers = append(s.Workers, Lack{Worker: e.Name, Lacks: w.query.lacksVolumes(e, w.query.limitsOf(e).Volumes),
					Wants: w.query.spec.Volumes + w.query.missing(e), Going: e.usage.Going})
			}
		}
		if len(s.Workers) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// limitsVolumes tells whether any worker may have a limit of volumes: without one nobody has to be put in order at each change.
func (q *Queue) limitsVolumes() bool {
	if q.placer.rules.Load().limits.Volumes > 0 {
		return true
	}
	x := q.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.ContainsFunc(x.slots, func(e *entry) bool { return e != nil && e.Limits.Volumes > 0 })
}

// Unplaced gets a token when somebody begins to wait, and when something has changed and somebody waits still: it is time to look at Shortages.
func (q *Queue) Unplaced() <-chan struct{} { return q.unplaced }

// Nudge puts a token into Unplaced, for what has changed elsewhere.
func (q *Queue) Nudge() {
	select {
	case q.unplaced <- struct{}{}:
	default:
	}
}
