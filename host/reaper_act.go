package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Everything here looks again, in the transaction that begins the change, at what the verdict was founded on: what has come into use
// meanwhile stays.

// reapContainer has a container destroyed with its volumes, or what a worker has of one that is over or was never recorded.
func (h *Host) reapContainer(ctx context.Context, w *worker, id string) error {
	doomed, err := h.giveUpContainer(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return h.destroyUnknown(ctx, w.name, containerThing(id))
	}
	if err != nil {
		return err
	}
	return h.awaitGone(ctx, w.name, destroyPatience, doomed.things...)
}

// giveUpContainer notes that a container and its volumes are to be destroyed. store.ErrNotFound is one that has no record, or the record of
// one that is over.
func (h *Host) giveUpContainer(ctx context.Context, id string) (out doomed, err error) {
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		d := doom{volumes: true}
		row, err := tx.Container(id)
		if err != nil {
			return err
		}
		switch containerStates(row.State) {
		case reap.Over:
			return store.ErrNotFound
		case reap.Going:
			d.volumes = false // a step that has ended may want them still
		case reap.Making:
			if h.busy.has(id) {
				return errChanged
			}
			d.disown = true
		default:
			look := reap.Snapshot{Rules: h.rules(), Owners: make(map[string]reap.Owner)}
			look.Now, look.Renewed = h.jumps.look(h.clock)
			r, err := h.recordOf(tx, row)
			if err = errors.Join(err, h.ownerOf(tx, row.Owner, look.Owners)); err != nil {
				return err
			}
			if o, known := look.Owners[row.Owner]; row.Owner != "" && (!known || !o.Ended) && !look.Idle(r) {
				return errChanged
			}
		}
		out, err = h.doomContainer(tx, id, d)
		return err
	})
	return out, err
}

// reapVolume has a volume destroyed that nothing needs.
func (h *Host) reapVolume(ctx context.Context, w *worker, id string) error {
	t := volumeThing(id)
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Volume(id)
		if err != nil {
			return err
		}
		if used, err := h.volumeUsed(tx, row); err != nil || used {
			return errors.Join(err, errChanged)
		}
		_, err = h.moveVolume(tx, id, lifecycle.Doomed, nil)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return h.destroyUnknown(ctx, w.name, t)
	}
	if err != nil {
		return err
	}
	return h.awaitGone(ctx, w.name, destroyPatience, t)
}

// volumeUsed tells whether somebody needs a volume, or what it is a part of.
func (h *Host) volumeUsed(tx *store.Tx, row store.Volume) (bool, error) {
	if needed, err := volumeNeeded(tx, row); needed || err != nil {
		return true, err
	}
	if row.State == lifecycle.VolumeDestroying {
		return false, nil
	}
	if h.busy.has(row.ID) {
		return true, nil
	}
	if row.Artifact != "" && row.State == lifecycle.VolumeSealed {
		_, err := tx.Artifact(row.Artifact)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return true, err // if it has expired, it is removed as a whole
	}
	if row.Container == "" {
		return false, nil
	}
	c, err := tx.Container(row.Container)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	look := reap.Snapshot{Rules: h.rules(), Owners: make(map[string]reap.Owner)}
	look.Now, look.Renewed = h.jumps.look(h.clock)
	if err := h.ownerOf(tx, c.Owner, look.Owners); err != nil {
		return true, err
	}
	return !look.Left(reap.ContainerRecord{ID: c.ID, Owner: c.Owner, State: containerStates(c.State), Since: c.UpdatedAt}), nil
}

// loseVolume forgets a volume that its worker does not have any more.
func (h *Host) loseVolume(ctx context.Context, w *worker, id string) error {
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		m, err := h.moveVolume(tx, id, lifecycle.Missing, nil)
		if err == nil && !m.yes {
			err = errChanged
		}
		return err
	})
}

// reapArtifacts removes what has expired.
func (h *Host) reapArtifacts(ctx context.Context, dry bool) ([]ReapVerdict, error) {
	look := reap.Snapshot{Rules: h.rules()}
	look.Now, look.Renewed = h.jumps.look(h.clock)
	return h.expire(ctx, look, dry)
}

// expire gives up the artifacts that nobody holds and whose time has passed; their volumes go with the sweeps of their workers, so that
// one that hangs holds up none of the others. One that a container still uses goes another time.
func (h *Host) expire(ctx context.Context, look reap.Snapshot, dry bool) (out []ReapVerdict, err error) {
	var expired []store.Artifact
	err = h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{})
		if err != nil {
			return err
		}
		owners := make(map[string]reap.Owner)
		for _, row := range rows {
			a, err := h.artifactOf(tx, row, owners)
			if err != nil {
				return err
			}
			if look.Expired(a) {
				expired = append(expired, row)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for len(expired) > 0 {
		var used []store.Artifact // perhaps by a clone that is another's
		for _, row := range expired {
			v := ReapVerdict{Kind: "artifact", ID: row.ID, Action: ReapDestroy, Reason: fmt.Sprintf("artifact %s has expired", row.Name)}
			if !dry {
				v.Err = h.removeExpired(ctx, look, row)
			}
			if errors.Is(v.Err, errChanged) {
				continue
			}
			if errors.Is(v.Err, sdk.ReasonInUse) {
				used = append(used, row)
				continue
			}
			out = append(out, v)
		}
		if len(used) == len(expired) {
			for _, row := range used {
				out = append(out, ReapVerdict{Kind: "artifact", ID: row.ID, Action: ReapKeep,
					Reason: fmt.Sprintf("artifact %s has expired, and is still used, or something is made of it", row.Name)})
			}
			break
		}
		expired = used
	}
	return out, nil
}

// removeExpired gives up an artifact whose time has passed, if that is so still and nobody uses it.
func (h *Host) removeExpired(ctx context.Context, look reap.Snapshot, row store.Artifact) error {
	a := &Artifact{ID: row.ID, Name: row.Name}
	_, err := h.giveUpArtifact(ctx, a, h.unused(a, func(tx *store.Tx, row store.Artifact) (bool, error) {
		a, err := h.artifactOf(tx, row, make(map[string]reap.Owner))
		return look.Expired(a), err
	}))
	return err
}

// keepFailed leaves a container whose command failed to the reaper, for people to look at meanwhile. It counts as work no more.
func (c *Container) keepFailed(ctx context.Context) error {
	c.record.Kept = true
	if err := c.move(ctx, lifecycle.Described); err != nil {
		return err
	}
	c.h.index.Release(c.owner)
	return nil
}

// explainRecord tells of what is only a record.
func (h *Host) explainRecord(ctx context.Context, id string) (out []ReapVerdict, err error) {
	records := h.cfg().Reaping.OrDefault().Records
	err = h.store.View(ctx, func(tx *store.Tx) error {
		add := func(kind, id, worker, reason string, at time.Time) {
			out = append(out, ReapVerdict{Kind: kind, ID: id, Worker: worker, Action: ReapKeep, Reason: reason, At: at})
		}
		c, err := tx.Container(id)
		if errors.Is(err, store.ErrNotFound) {
			c, err = tx.ContainerByOwner(id)
		}
		if err == nil {
			add("container", c.ID, c.Worker, "it is "+c.State+": only its record is left", c.UpdatedAt.Add(records))
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		row, err := tx.Run(id)
		if err == nil && row.State == lifecycle.RunEnded {
			add("run", id, "", "it has ended: only its records and output are left", row.EndedAt.Add(records))
		}
		if err == nil && row.State != lifecycle.RunEnded {
			o, err := h.runState(tx, row)
			if err != nil {
				return err
			}
			reason, at := "it is under way", time.Time{}
			if !o.Active {
				reason, at = "it is not under way, and can be resumed", o.Idle.Add(h.rules().Abandoned)
			}
			add("run", id, "", reason, at)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		a, err := tx.Artifact(id)
		if errors.Is(err, store.ErrNotFound) {
			a, err = tx.ArtifactByName(id)
		}
		if err == nil {
			add("artifact", a.ID, "", "artifact "+a.Name+" is on no worker", h.artifactGoes(a))
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	return out, err
}

// standsFor lists the ids of all that an id or a name stands for.
func standsFor(tx *store.Tx, id string) ([]string, error) {
	names := []string{id}
	containers, err := tx.Containers(store.ContainerFilter{})
	if err != nil {
		return nil, err
	}
	mine := make(map[string]bool)
	for _, c := range containers {
		if c.ID == id || c.Owner == id || RunOf(c.Owner) == id {
			names, mine[c.ID] = append(names, c.ID), true
		}
	}
	artifacts, err := tx.Artifacts(store.ArtifactFilter{})
	if err != nil {
		return nil, err
	}
	for _, a := range artifacts {
		if a.ID == id || a.Name == id || a.Owner == id || RunOf(a.Owner) == id {
			names, mine[a.ID] = append(names, a.ID), true
		}
	}
	volumes, err := tx.Volumes(store.VolumeFilter{})
	for _, v := range volumes {
		if mine[v.Container] && v.Container != "" || mine[v.Artifact] && v.Artifact != "" {
			names = append(names, v.ID)
		}
	}
	return names, err
}
