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

// Here room is made on workers that have as many volumes as they may, while somebody waits for a place there: replicas that are spare are given up,
// those first that were used the longest ago. Spare is what nothing uses or is made of, and what is on another worker as well that is at least as sure
// to keep it, or on the host's disk, and any cache. The reconciler of its worker destroys it, as all that goes; whoever waits gets the place when it is gone.

// roomFor is for how many of those who wait room is looked for at a time, the first first.
const roomFor = 100

// makeRooms makes room for volumes whenever somebody waits for it and something has changed. It takes a fifth of its time at most.
func (h *Host) makeRooms() {
	for {
		select {
		case <-h.queue.Unplaced():
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

// makeRoom gives up spare replicas on full workers for those who wait, as far as what is being destroyed there does not make the room. Where all that
// is spare on a worker would not do for somebody, nothing is given up for him.
func (h *Host) makeRoom(ctx context.Context) error {
	coming := make(map[string]int)           // volumes that go, less what they make room for already
	spare := make(map[string][]store.Volume) // what could go yet
	for _, s := range h.queue.Shortages(roomFor) {
		for _, l := range s.Workers {
			if _, known := coming[l.Worker]; !known {
				coming[l.Worker] = l.Going - h.reconciler(l.Worker).stuck(reap.Volume)
			}
		}
		left := func(l pool.Lack) int { return l.Lacks - coming[l.Worker] }
		slices.SortStableFunc(s.Workers, func(a, b pool.Lack) int { return cmp.Compare(left(a), left(b)) })
		for _, l := range s.Workers {
			if left(l) > 0 {
				if _, known := spare[l.Worker]; !known {
					rows, err := h.spareOn(ctx, l.Worker)
					if err != nil {
						return err
					}
					spare[l.Worker] = rows
				}
				gone, err := h.giveUpSpare(ctx, s.Waiter, spare[l.Worker], left(l))
				spare[l.Worker] = slices.DeleteFunc(spare[l.Worker], func(v store.Volume) bool { return slices.Contains(gone, v.ID) })
				if coming[l.Worker] += len(gone); err != nil {
					return err
				}
			}
			if left(l) <= 0 {
				coming[l.Worker] -= l.Wants
				break
			}
		}
	}
	return nil
}

// giveUpSpare gives up so many of the replicas for somebody who waits and does not need them himself, the first first, and names those. If there are too few it
// gives up none.
func (h *Host) giveUpSpare(ctx context.Context, who pool.Waiter, rows []store.Volume, n int) (gone []string, err error) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(v store.Volume) bool {
		return slices.ContainsFunc(who.Spec.Inputs, func(in pool.Content) bool { return in.Key == v.Artifact })
	})
	if len(rows) < n {
		return nil, nil
	}
	for _, row := range rows {
		if len(gone) == n {
			break
		}
		going, err := h.doomUnused(ctx, row, func(tx *store.Tx) (bool, error) { return h.notSpare(tx, row) })
		if err != nil {
			return gone, fmt.Errorf("give up volume %s on %s: %w", row.ID, row.Worker, err)
		}
		if going {
			h.log.Info("gave up a replica, to make room for a container that waits", "volume", row.ID, "worker", row.Worker, "artifact", row.Artifact, "owner", who.Owner)
			gone = append(gone, row.ID)
		}
	}
	return gone, nil
}

// spareOn lists the replicas on a worker that are spare, those that were used the longest ago first: as far as this host knows, else as their
// artifacts were, or they were made.
func (h *Host) spareOn(ctx context.Context, worker string) (out []store.Volume, err error) {
	used := make(map[string]time.Time)
	err = h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
		if err != nil {
			return err
		}
		mounted, going, err := imagesInUse(tx)
		if err != nil {
			return err
		}
		for _, v := range rows {
			mounted[v.Parent] = true
		}
		for _, v := range rows {
			if v.State != lifecycle.VolumeSealed || v.Artifact == "" || mounted[v.ID] || going[v.ID] || h.index.Claimed(worker, v.Artifact) {
				continue
			}
			a, err := tx.Artifact(v.Artifact)
			if ignoreNotFound(err) != nil {
				return err
			}
			if other, err := h.hadElsewhere(tx, a, v); err != nil {
				return err
			} else if other {
				out, used[v.ID] = append(out, v), a.UsedAt
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b store.Volume) int {
		return cmp.Or(cmp.Compare(h.index.LastUse(worker, a.Artifact), h.index.LastUse(worker, b.Artifact)), used[a.ID].Compare(used[b.ID]),
			a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out, err
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
	if needed, err := volumeNeeded(tx, row); err != nil || needed {
		return true, err
	}
	other, err := h.hadElsewhere(tx, a, row)
	return !other, err
}

// hadElsewhere tells whether what a replica has is on the host's disk, or in another replica that is at least as sure to stay, or is a cache, which can be
// made again. The directory of this machine that it came from does not count: it may have changed.
func (h *Host) hadElsewhere(tx *store.Tx, a store.Artifact, row store.Volume) (bool, error) {
	if a.Blob != "" || a.Key != "" {
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
