package pool

import (
	"cmp"
	"fmt"
)

// Here the volumes of workers are counted, which [Limits.Volumes] bounds.
//
// What counts on a worker are the volumes that are there, and what its leases claim of those that are still to be made: a number of the
// container's own, and each content that the container needs there and that is not on the worker yet. A content that several leases claim
// is one volume, and so is counted once. A volume is there from before it is made ([Queue.Make]) until it is destroyed ([Index.ChangeVolume]);
// making one that was claimed turns the claim into a volume, so that the sum stays as it was when the place was given.

// Stage is how far a volume is.
type Stage int

const (
	Absent Stage = iota
	Making       // being made or filled
	Sealed
	Going // to be destroyed, and there still
)

// VolumeState is a stage, and the key of the content that the volume has or will have there; empty: none that another could use.
type VolumeState struct {
	Stage Stage
	Key   string
}

// VolumeChange is one change of one volume of a worker.
type VolumeChange struct {
	Worker  string
	Was, Is VolumeState
	// Copies is how many sealed volumes the worker has, after the change, with the content that this one has or had.
	Copies int
	Bytes  int64 // of one of them
}

// promise is what is known of a content on a worker beside sealed volumes.
type promise struct {
	making  int // volumes that are being filled with it
	claims  int // leases that need it there
	endless int // those of them that heed no limit of volumes
}

// grant is a lease with the contents that it claims.
type grant struct {
	Lease
	keys    []digest
	endless bool // it heeds no limit of volumes
}

// ChangeVolume notes a change of a volume. The first one of a volume that [Queue.Make] has counted is the next after Making.
func (x *Index) ChangeVolume(c VolumeChange) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entry(c.Worker)
	e.usage.Volumes += there(c.Is) - there(c.Was)
	e.usage.Going += going(c.Is) - going(c.Was)
	x.countMaking(e, c.Was, -1)
	x.countMaking(e, c.Is, 1)
	if key := cmp.Or(c.Is.Key, c.Was.Key); key != "" && (c.Was.Stage == Sealed || c.Is.Stage == Sealed) {
		if d := x.digest(key); c.Copies > 0 {
			r := x.addContent(e, d, c.Bytes)
			if c.Is.Stage == Sealed {
				x.use(r)
			}
		} else if known := x.contents[d]; known != nil {
			x.dropContent(e, known)
		}
	}
	x.changed(e)
	x.forget(e)
}

func there(s VolumeState) int { return count(s.Stage != Absent) }

func going(s VolumeState) int { return count(s.Stage == Going) }

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// countMaking notes that n more volumes are being filled with a content, if that is what s says. The lock is held.
func (x *Index) countMaking(e *entry, s VolumeState, n int) {
	if s.Stage == Making && s.Key != "" {
		x.promise(e, x.digest(s.Key), func(p *promise) { p.making += n })
	}
}

// promise changes what is promised of a content on a worker. The lock is held.
func (x *Index) promise(e *entry, d digest, change func(*promise)) {
	x.around(e, d, func() {
		p := e.promised[d]
		change(&p)
		if p == (promise{}) {
			delete(e.promised, d)
			return
		}
		if e.promised == nil {
			e.promised = make(map[digest]promise)
		}
		e.promised[d] = p
	})
}

// around keeps count of what is claimed and not there, whatever change does with one content. The lock is held.
func (x *Index) around(e *entry, d digest, change func()) {
	before := x.claimedNotThere(e, d)
	change()
	e.usage.ClaimedReplicas += count(x.claimedNotThere(e, d)) - count(before)
}

func (x *Index) claimedNotThere(e *entry, d digest) bool {
	return e.promised[d].claims > 0 && !x.has(e, d)
}

// has tells whether a content is on a worker, or comes there. The lock is held.
func (x *Index) has(e *entry, d digest) bool {
	if e.promised[d].making > 0 {
		return true
	}
	c := x.contents[d]
	if c == nil {
		return false
	}
	_, found := c.find(e.slot)
	return found
}

// claim adds what a lease claims of contents to a worker, or takes it away. The lock is held.
func (x *Index) claim(e *entry, g grant, n int) {
	for _, d := range g.keys {
		x.promise(e, d, func(p *promise) {
			p.claims += n
			if g.endless {
				p.endless += n
			}
		})
		if c := x.contents[d]; c != nil {
			if i, found := c.find(e.slot); found {
				x.use(&c.replicas[i])
			}
		}
	}
}

// use notes that a replica was used now. The lock is held.
func (x *Index) use(r *replica) {
	x.uses++
	r.used = x.uses
}

// LastUse orders the contents of a worker by their last use, the longest ago first: 0 is one that was neither made there nor used there since the
// index began.
func (x *Index) LastUse(worker, key string) uint64 {
	d := x.digest(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	e, c := x.byName[worker], x.contents[d]
	if e == nil || c == nil {
		return 0
	}
	if i, found := c.find(e.slot); found {
		return c.replicas[i].used
	}
	return 0
}

// Claimed tells whether a lease claims a content on a worker.
func (x *Index) Claimed(worker, key string) bool {
	d := x.digest(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	e := x.byName[worker]
	return e != nil && e.promised[d].claims > 0
}

// GiveBackUnused gives back what the owner's lease claims of volumes and has not made: its container has all that it needs by now.
func (x *Index) GiveBackUnused(owner string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	g, ok := x.leases[owner]
	if !ok {
		return
	}
	e := x.byName[g.Worker]
	e.usage.ClaimedVolumes -= g.Volumes
	x.claim(e, g, -1)
	g.Volumes, g.keys = 0, nil
	x.leases[owner] = g
	x.changed(e)
}

// VolumesError says that a volume was not made since its worker would have had more than its limit.
type VolumesError struct {
	Worker         string
	Limit          int
	There, Claimed int
}

func (e *VolumesError) Error() string {
	return fmt.Sprintf("worker %s has no room for another volume: its limit is %d, %d are there and %d claimed", e.Worker, e.Limit, e.There, e.Claimed)
}

// Make counts a volume that is about to be made on a worker: one of an owner's container, or one that is filled with a content. What a lease has
// claimed is taken from the claim. The worker never gets more than its limit so: what was claimed is refused where other volumes are in the way
// that nobody could foresee, such as one that was filled in vain and is there still, and what was not claimed where there is no room beside
// the claims. The error is a *VolumesError then, and nothing is counted.
func (q *Queue) Make(worker, owner, key string) error {
	x := q.index
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.entry(worker)
	limit, claimed := q.limitOn(e, owner, key)
	if err := e.refuse(limit, claimed); err != nil {
		x.forget(e)
		return err
	}
	if g, ok := x.leases[owner]; ok && key == "" && claimed {
		g.Volumes--
		x.leases[owner] = g
		e.usage.ClaimedVolumes--
	}
	e.usage.Volumes++
	x.countMaking(e, VolumeState{Making, key}, 1)
	if e.reserved != nil && key != "" { // whoever needs the same there takes less now
		x.changed(e)
	}
	return nil
}

// HasRoom tells whether one more volume with that content could be made on a worker now, or it has or gets one.
func (q *Queue) HasRoom(worker, key string) bool {
	x := q.index
	d := x.digest(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	e := x.byName[worker]
	if e == nil || x.has(e, d) {
		return true
	}
	limit, claimed := q.limitOn(e, "", key)
	return e.refuse(limit, claimed) == nil
}

// limitOn is the limit that a volume has to heed, and tells whether a lease has claimed it. The lock is held.
func (q *Queue) limitOn(e *entry, owner, key string) (limit int, claimed bool) {
	x, limits := q.index, q.placer.rules.Load().limits
	if key != "" {
		d := x.digest(key)
		switch p := e.promised[d]; {
		case p.endless > 0:
			return 0, true
		case p.claims > 0:
			return cmp.Or(e.Limits.Volumes, limits.Volumes), !x.has(e, d)
		}
		return q.placer.query(x, Spec{}).limitsOf(e).Volumes, false
	}
	g, ok := x.leases[owner]
	if !ok || g.Worker != e.Name {
		return q.placer.query(x, Spec{}).limitsOf(e).Volumes, false
	}
	return q.placer.query(x, Spec{Kind: g.Kind}).limitsOf(e).Volumes, g.Volumes > 0
}

// refuse says why a worker may not have another volume, nil if it may.
func (e *entry) refuse(limit int, claimed bool) error {
	counts := e.usage.volumes()
	if claimed { // it counts already, and must only not be in the way of what is there
		counts = e.usage.Volumes
	}
	if limit == 0 || counts < limit {
		return nil
	}
	return &VolumesError{Worker: e.Name, Limit: limit, There: e.usage.Volumes, Claimed: e.usage.claimed()}
}
