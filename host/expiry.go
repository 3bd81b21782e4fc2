package host

import (
	"container/heap"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// What has a time to live goes when that has passed, and not when somebody happens to look: the next such time sets a timer. What is told here is only when to
// look at a thing; whether it goes its row says then, in the transaction that gives it up. What is held up by something else, such as a clone of it or a clock
// that was set, goes with a look of the reaper.

// expiries are times at which things are to be looked at. The zero value has none.
type expiries struct {
	mu      sync.Mutex
	at      map[reap.Thing]*expiry
	order   expiryHeap
	held    map[reap.Thing]bool // looked at, and to be looked at again when they are let go
	changed chan struct{}       // gets a token when another is the first; nil: nobody waits
}

type expiry struct {
	thing reap.Thing
	at    time.Time
	index int // in the heap
}

// note has a thing looked at at a time, or sooner if somebody has said so before.
func (x *expiries) note(t reap.Thing, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(t, at)
}

// add is note. The lock is held.
func (x *expiries) add(t reap.Thing, at time.Time) {
	if x.at == nil {
		x.at = make(map[reap.Thing]*expiry)
	}
	delete(x.held, t)
	e := x.at[t]
	switch {
	case e == nil:
		e = &expiry{thing: t, at: at}
		x.at[t] = e
		heap.Push(&x.order, e)
	case at.Before(e.at):
		e.at = at
		heap.Fix(&x.order, e.index)
	default:
		return
	}
	if e.index == 0 && x.changed != nil {
		select {
		case x.changed <- struct{}{}:
		default:
		}
	}
}

// letGo has a thing looked at at once that was held when it was looked at last, or is just being looked at.
func (x *expiries) letGo(t reap.Thing, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.held[t] {
		x.add(t, now)
	}
}

// forget leaves out a thing that goes before its time.
func (x *expiries) forget(t reap.Thing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.held, t)
	if e := x.at[t]; e != nil {
		heap.Remove(&x.order, e.index)
		delete(x.at, t)
	}
}

// begin gives the channel of changes, for the one who waits.
func (x *expiries) begin() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changed = make(chan struct{}, 1)
	return x.changed
}

// next is when something is to be looked at next.
func (x *expiries) next() (at time.Time, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.order) == 0 {
		return time.Time{}, false
	}
	return x.order[0].at, true
}

// due takes out what is to be looked at by now. It counts as held until looked says otherwise, so that what lets it go meanwhile is not lost.
func (x *expiries) due(now time.Time) (out []reap.Thing) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.order) > 0 && !x.order[0].at.After(now) {
		t := heap.Pop(&x.order).(*expiry).thing
		delete(x.at, t)
		if x.held == nil {
			x.held = make(map[reap.Thing]bool)
		}
		x.held[t] = true
		out = append(out, t)
	}
	return out
}

// looked says what a look at a thing that was due has come to: at a time it is to be looked at again, or when it is let go, or, both left out, never.
func (x *expiries) looked(t reap.Thing, again time.Time, held bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case !again.IsZero():
		x.add(t, again)
	case !held:
		delete(x.held, t)
	}
}

// run looks at each thing when its time has come, until ctx ends.
func (x *expiries) run(ctx context.Context, c clock, look func(reap.Thing) (again time.Time, held bool)) {
	changed := x.begin()
	for {
		var timer <-chan time.Time
		at, ok := x.next()
		left := at.Sub(c.wall())
		if ok && left > 0 {
			timer = c.after(left)
			left = at.Sub(c.wall()) // it may have passed, or the clock been set, while the timer was
		}
		if !ok || left > 0 {
			select {
			case <-timer:
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		for _, t := range x.due(c.wall()) {
			if ctx.Err() != nil {
				return
			}
			again, held := look(t)
			x.looked(t, again, held)
		}
	}
}

// expiryHeap has the soonest first.
type expiryHeap []*expiry

func (q expiryHeap) Len() int           { return len(q) }
func (q expiryHeap) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q expiryHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *expiryHeap) Push(v any) {
	e := v.(*expiry)
	e.index = len(*q)
	*q = append(*q, e)
}
func (q *expiryHeap) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return e
}

// expireInTime takes away containers that nobody has used for their TTL, and artifacts whose time has passed, when that is, until the host closes.
func (h *Host) expireInTime() {
	if err := h.loadExpiries(h.ctx); err != nil && h.ctx.Err() == nil {
		h.log.Warn("when things expire could not be read; the reaper finds them", "error", err)
	}
	h.expiries.run(h.ctx, h.clock, func(t reap.Thing) (time.Time, bool) {
		v, again, held, err := h.lookAtExpired(h.ctx, t)
		switch {
		case err != nil && h.ctx.Err() == nil:
			h.log.Warn("taking away what has expired failed; the reaper tries again", "kind", t.Kind, "id", t.ID, "error", err)
		case err == nil && v.Action == ReapDestroy:
			h.logReaped([]ReapVerdict{v})
		}
		return again, held
	})
}

// artifactKind makes an artifact one of the things that expire.
const artifactKind = reap.Kind("artifact")

// loadExpiries notes what an earlier host has left.
func (h *Host) loadExpiries(ctx context.Context) error {
	return h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{States: []string{lifecycle.ContainerReady}})
		if err != nil {
			return err
		}
		for _, row := range containers {
			h.noteContainer(row)
		}
		artifacts, err := tx.Artifacts(store.ArtifactFilter{})
		for _, row := range artifacts {
			h.noteArtifact(row)
		}
		return err
	})
}

// noteContainer has a container looked at when nobody has used it for its TTL, if it has one.
func (h *Host) noteContainer(row store.Container) {
	var kept containerRecord
	if err := json.Unmarshal(row.Spec, &kept); err == nil && kept.TTL > 0 { // who reads it for another reason tells what is wrong with it
		h.expiries.note(containerThing(row.ID), row.UpdatedAt.Add(kept.TTL))
	}
}

// putArtifact writes an artifact's row, and has it looked at when its time has passed.
func (h *Host) putArtifact(tx *store.Tx, row store.Artifact) error {
	tx.Committed(func() { h.noteArtifact(row) })
	return tx.PutArtifact(row)
}

func (h *Host) noteArtifact(row store.Artifact) {
	if row.Owner == "" && !row.ExpiresAt.IsZero() {
		h.expiries.note(artifactThing(row.ID), row.ExpiresAt)
	}
}

// deleteArtifact deletes an artifact's row. Caches are made anew all the time, and kept for a month: so what is gone is no more to be looked at.
func (h *Host) deleteArtifact(tx *store.Tx, id string) error {
	tx.Committed(func() { h.expiries.forget(artifactThing(id)) })
	return tx.DeleteArtifact(id)
}

func artifactThing(id string) reap.Thing { return reap.Thing{Kind: artifactKind, ID: id} }

// lookAtExpired takes a thing away if its time has passed, else it says when to look again, or that something holds it until that lets it go.
func (h *Host) lookAtExpired(ctx context.Context, t reap.Thing) (v ReapVerdict, again time.Time, held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	v = ReapVerdict{Kind: string(t.Kind), ID: t.ID, Action: ReapKeep}
	now := h.clock.wall() // one for the whole look: what is not over by it is looked at again
	if t.Kind == artifactKind {
		again, held, err = h.lookAtArtifact(ctx, now, t.ID, &v)
	} else {
		again, held, err = h.lookAtContainer(ctx, now, t.ID, &v)
	}
	if !again.After(now) { // something else is in its way
		again = time.Time{}
	}
	return v, again, held, err
}

func (h *Host) lookAtContainer(ctx context.Context, now time.Time, id string, v *ReapVerdict) (again time.Time, held bool, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Container(id)
		if err != nil {
			return ignoreNotFound(err)
		}
		processes, err := tx.Processes(store.ProcessFilter{Container: id})
		if err != nil {
			return err
		}
		_, held = lastUse(row, processes)
		again, err = expires(row, processes, h.goes)
		return err
	})
	if err != nil || again.IsZero() || again.After(now) {
		return again, held, err
	}
	doomed, err := h.giveUpContainer(ctx, id)
	switch {
	case err == nil:
		v.Worker, v.Action, v.Reason = doomed.worker, ReapDestroy, "its owner has not used it for its TTL"
	case errors.Is(err, errChanged): // something has just begun in it, perhaps
		return time.Time{}, true, nil
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	return time.Time{}, false, err
}

func (h *Host) lookAtArtifact(ctx context.Context, now time.Time, id string, v *ReapVerdict) (again time.Time, held bool, err error) {
	var row store.Artifact
	err = h.store.View(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Artifact(id)
		return ignoreNotFound(err)
	})
	if err != nil || row.ID == "" || row.Owner != "" || row.ExpiresAt.IsZero() {
		return time.Time{}, false, err
	}
	if at := h.artifactGoes(row); at.After(now) {
		return at, false, nil
	}
	look := reap.Snapshot{Rules: h.rules()}
	look.Now, look.Renewed = h.jumps.look(h.clock)
	switch err = h.removeExpired(ctx, look, row); {
	case err == nil:
		v.Action, v.Reason = ReapDestroy, fmt.Sprintf("artifact %s has expired", row.Name)
	case errors.Is(err, sdk.ReasonInUse):
		return time.Time{}, true, nil
	case errors.Is(err, errChanged):
		err = nil
	}
	return time.Time{}, false, err
}
