package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Here room is made on workers that have as many volumes as they may, while somebody waits for a place there. Replicas that nothing uses are given up, the longest
// unused first. One may go at once if what it has is also on the host's disk, or on another worker that is at least as sure to keep it; a cache may go in any case, but that of
// the one who waits. Where that would not do, what is nowhere else is copied away first: see volume_copy.go. The reconciler of the worker destroys what goes, and whoever
// waits gets the place when it is gone.

// roomFor is for how many of those who wait room is looked for at a time, the first first.
const roomFor = 100

// copyPatience is how long somebody waits beside others that are on the worker, and that may make the room by coming to their ends, before something is copied away for him.
const copyPatience = 10 * time.Second

// makeRooms makes room for volumes whenever somebody waits for it and something has changed, or it is time to look again. It takes a fifth of its time at most.
func (h *Host) makeRooms() {
	for {
		var due <-chan time.Time
		if at := h.rooms.nextLook(); !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-h.queue.Unplaced():
		case <-due:
		case <-h.ctx.Done():
			return
		}
		began := time.Now()
		if err := h.makeRoom(h.ctx); err != nil && h.ctx.Err() == nil {
			h.log.Warn("making room for volumes failed", "error", err)
		}
		select {
		case <-time.After(4 * time.Since(began)):
		case <-h.ctx.Done():
			return
		}
	}
}

// makeRoom gives up replicas on full workers for those who wait, as far as what is being destroyed there does not make the room. Where all that
// could go from a worker would not do for somebody, nothing is given up for him.
func (h *Host) makeRoom(ctx context.Context) error {
	p := roomPass{h: h, coming: make(map[string]int), found: make(map[string][]candidate), keep: make(map[string]bool), short: make(map[string]bool),
		open: make(map[string]bool), making: make(map[string]bool)}
	shortages := h.queue.Shortages(roomFor)
	for _, s := range shortages {
		for _, l := range s.Workers {
			p.short[l.Worker] = true
		}
	}
	defer func() { h.rooms.passed(p.keep, p.again) }()
	for _, s := range shortages {
		if err := p.serve(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// roomPass is one look at all who wait for room.
type roomPass struct {
	h      *Host
	coming map[string]int         // volumes that go, less what they make room for already, by worker
	found  map[string][]candidate // what could go yet
	keep   map[string]bool        // artifacts whose copies on the host's disk stand in for replicas that are about to go
	short  map[string]bool        // workers on which somebody waits for room
	open   map[string]bool        // workers where volumes are still being made or written
	making map[string]bool        // workers where something is copied away, given up or being destroyed
	again  time.Time              // when to look again though nothing changes; zero: not
}

func (p *roomPass) left(l pool.Lack) int { return l.Lacks - p.coming[l.Worker] }

// serve makes room for one who waits, on the worker that lacks the least of it.
func (p *roomPass) serve(ctx context.Context, s pool.Shortage) error {
	wants := make(map[string]bool)
	for _, in := range s.Spec.Inputs {
		wants[in.Key] = true
	}
	for _, l := range s.Workers {
		if _, known := p.coming[l.Worker]; !known {
			p.coming[l.Worker] = l.Going - p.h.reconciler(l.Worker).stuck(reap.Volume)
			p.making[l.Worker] = p.coming[l.Worker] > 0
		}
	}
	slices.SortStableFunc(s.Workers, func(a, b pool.Lack) int { return cmp.Compare(p.left(a), p.left(b)) })
	copies := make(map[string][]candidate) // what would do once it was copied, by worker
	for _, l := range s.Workers {
		if p.left(l) > 0 {
			if err := p.look(ctx, l.Worker); err != nil {
				return err
			}
			chosen := choose(p.found[l.Worker], wants, p.left(l))
			if slices.ContainsFunc(chosen, func(c candidate) bool { return c.copyFirst(wants[c.row.Artifact]) }) {
				copies[l.Worker] = chosen
				continue
			}
			if err := p.giveUp(ctx, s.Waiter, l.Worker, chosen, wants); err != nil {
				return err
			}
		}
		if p.left(l) <= 0 {
			p.coming[l.Worker] -= l.Wants
			return nil
		}
	}
	early := time.Since(s.Since) < copyPatience
	if early {
		p.lookAgain(s.Since.Add(copyPatience))
	}
	making := false
	for _, l := range s.Workers {
		making = making || p.making[l.Worker]
		chosen := copies[l.Worker]
		if len(chosen) > 0 && !(early && (p.moves(l.Worker) || slices.ContainsFunc(chosen, p.h.goesByItself))) {
			p.copyAway(s.Waiter, l.Worker, chosen, wants)
			return nil
		}
	}
	if moves := slices.ContainsFunc(s.Workers, func(l pool.Lack) bool { return p.moves(l.Worker) }); len(copies) == 0 && !making && !(early && moves) {
		return p.h.tellNoRoom(ctx, s.Waiter)
	}
	return nil
}

// moves tells whether something is under way on a worker whose end may make room there.
func (p *roomPass) moves(worker string) bool {
	u := p.h.index.Usage(worker)
	return u.Build+u.NoInput+u.Check > 0 || p.open[worker]
}

// goesByItself tells whether a candidate is of a run whose steps have all ended, which takes it and lets it go.
func (h *Host) goesByItself(c candidate) bool {
	h.mu.Lock()
	r := h.going[RunOf(c.artifact.Owner)]
	h.mu.Unlock()
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.results) == len(r.req.Job.Steps)
}

func (p *roomPass) lookAgain(at time.Time) {
	if p.again.IsZero() || at.Before(p.again) {
		p.again = at
	}
}

// look finds out what could go from a worker, if that is not known.
func (p *roomPass) look(ctx context.Context, worker string) error {
	if _, known := p.found[worker]; known {
		return nil
	}
	all, open, err := p.h.couldGo(ctx, worker)
	p.found[worker], p.open[worker] = all, open
	return err
}

// giveUp gives up what was chosen for somebody.
func (p *roomPass) giveUp(ctx context.Context, who pool.Waiter, worker string, chosen []candidate, wants map[string]bool) error {
	var gone []candidate
	defer func() {
		p.coming[worker] += gained(gone, wants)
		p.take(worker, gone)
	}()
	for _, c := range chosen {
		row := c.row
		going, err := p.h.doomUnused(ctx, row, func(tx *store.Tx) (bool, error) { return p.h.notSpare(tx, row) })
		if err != nil {
			return fmt.Errorf("give up volume %s on %s: %w", row.ID, row.Worker, err)
		}
		if going {
			p.h.log.Info("gave up a replica, to make room for a container that waits", "volume", row.ID, "worker", row.Worker, "artifact", row.Artifact, "owner", who.Owner)
			gone = append(gone, c)
		}
	}
	return nil
}

// take leaves what is spoken for out of what others are looked for.
func (p *roomPass) take(worker string, taken []candidate) {
	p.making[worker] = p.making[worker] || len(taken) > 0
	p.found[worker] = slices.DeleteFunc(p.found[worker], func(c candidate) bool {
		return slices.ContainsFunc(taken, func(t candidate) bool { return t.row.ID == c.row.ID })
	})
}

// notSpare tells whether a replica has to stay where it is.
func (h *Host) notSpare(tx *store.Tx, row store.Volume) (bool, error) {
	a, err := tx.Artifact(row.Artifact)
	if err != nil { // whoever has removed it has doomed all that it had
		return false, ignoreNotFound(err)
	}
	if h.beingRead(row.Artifact) || h.index.Claimed(row.Worker, row.Artifact) {
		return true, nil
	}
	clones, err := tx.Volumes(store.VolumeFilter{Parent: row.ID, Worker: row.Worker})
	if err != nil {
		return true, err
	}
	images, going, err := imagesInUse(tx)
	if err != nil || images[row.ID] || going[row.ID] || slices.ContainsFunc(clones, func(c store.Volume) bool { return c.State != lifecycle.VolumeDestroying }) {
		return true, err
	}
	if a.Key != "" { // it can be made again
		return false, nil
	}
	other, err := h.elsewhere(tx, a, row)
	return !other, err
}

// elsewhere tells whether what a replica has is on the host's disk, or in another replica that is at least as sure to stay. The directory of this machine that it
// came from does not count: it may have changed.
func (h *Host) elsewhere(tx *store.Tx, a store.Artifact, row store.Volume) (bool, error) {
	if a.Blob != "" {
		return true, nil
	}
	copies, err := tx.Volumes(store.VolumeFilter{Artifact: row.Artifact, States: []string{lifecycle.VolumeSealed}})
	return slices.ContainsFunc(copies, func(c store.Volume) bool {
		return c.ID != row.ID && !h.doubts.has(c.ID) && (c.Worker == row.Worker || h.keepsAsWell(c.Worker, row.Worker))
	}), err
}

// keepsAsWell tells whether what is on a worker stays there at least as surely as on another one, and can be had now.
func (h *Host) keepsAsWell(worker, as string) bool {
	w, err := h.worker(worker)
	o, errOther := h.worker(as)
	if err != nil || errOther != nil {
		return false
	}
	r, other := w.report(), o.report()
	return r.Up && (r.State == pool.Running || r.State == pool.Cordoned) && (!w.passing() || o.passing()) &&
		(!r.Status.Has(sdk.FeatureVolatile) || other.Status.Has(sdk.FeatureVolatile))
}
