package pool

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
)

// Index is what is known about the workers. All methods are safe for concurrent
// use; none blocks on anything but the others. Events may come in any order: a
// lease or a content may be reported before its worker is, and waits for it.
type Index struct {
	hash [2]maphash.Seed

	mu       sync.RWMutex // protects what follows, and the waiters of every queue on this index
	byName   map[string]*entry
	slots    []*entry // nil where free
	free     []uint32
	contents map[digest]*content
	leases   map[string]grant // by owner
	held     map[string]int   // leases by team
	queues   []*Queue
	again    []*entry // workers still to be offered: their reservations have ended, or are in the way of less
	uses     uint64   // counts uses of replicas
}

// entry is a worker, or what was reported of one that is not there: known is
// false then, and as it has no State, nothing finds it compatible.
type entry struct {
	Worker
	known    bool
	slot     uint32
	usage    Usage
	contents []*content
	reserved *waiter            // the one that it is reserved for
	promised map[digest]promise // of contents that leases claim here, or that are being brought here
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		hash:     [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		byName:   make(map[string]*entry),
		contents: make(map[digest]*content),
		leases:   make(map[string]grant),
		held:     make(map[string]int),
	}
}

// Upsert adds the worker or replaces what was known of it. Its contents and
// leases stay. Idempotent; w is copied.
func (x *Index) Upsert(w Worker) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entry(w.Name)
	if e.known && e.equal(w) {
		return
	}
	e.Worker, e.known = w.clone(), true
	x.changed(e)
}

// Remove forgets the worker and its contents. Leases on it stay until their
// owners release them, for its containers may still be there when it comes
// back. Idempotent.
func (x *Index) Remove(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.byName[name]
	if e == nil {
		return
	}
	for len(e.contents) > 0 {
		x.dropContent(e, e.contents[len(e.contents)-1])
	}
	e.contents = nil
	e.Worker, e.known = Worker{Name: name}, false
	x.changed(e)
	x.forget(e)
}

// Workers returns every worker that is there, sorted by name.
func (x *Index) Workers() []Worker {
	x.mu.RLock()
	defer x.mu.RUnlock()
	all := make([]Worker, 0, len(x.byName))
	for _, e := range x.slots {
		if e != nil && e.known {
			all = append(all, e.clone())
		}
	}
	slices.SortFunc(all, func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Len returns how many workers are there, or have leases or contents though they are not.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.byName)
}

// Usage returns what the worker holds, the zero value if nothing is known of it.
func (x *Index) Usage(worker string) Usage {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if e := x.byName[worker]; e != nil {
		return e.usage
	}
	return Usage{}
}

// changed tells the queues that e may have room that it had not, or may suit
// less than it did. The lock is held.
func (x *Index) changed(e *entry) {
	x.recheck(e)
	x.offer(e)
	x.settle()
}

func (x *Index) offer(e *entry) {
	for _, q := range x.queues {
		q.changed(e)
	}
}

// entry returns the entry of that name, a new one if need be. The lock is held.
func (x *Index) entry(name string) *entry {
	if e := x.byName[name]; e != nil {
		return e
	}
	e := &entry{Worker: Worker{Name: name}}
	if n := len(x.free); n > 0 {
		e.slot = x.free[n-1]
		x.free = x.free[:n-1]
		x.slots[e.slot] = e
	} else {
		e.slot = uint32(len(x.slots))
		x.slots = append(x.slots, e)
	}
	x.byName[name] = e
	return e
}

// forget drops an entry that nothing is known of any more. The lock is held.
func (x *Index) forget(e *entry) {
	if e.known || e.usage != (Usage{}) {
		return
	}
	delete(x.byName, e.Name)
	x.slots[e.slot] = nil
	x.free = append(x.free, e.slot)
}
