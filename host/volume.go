package host

import (
	"context"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// What a volume is for.
const (
	roleReplica = "replica" // sealed content of an artifact
	roleInput   = "input"   // a container's own clone of one
	roleOutput  = "output"  // becomes an artifact when its step has ended
	roleCache   = "cache"   // becomes one when its step has succeeded
)

// createVolume makes a volume: one of an owner's container, or a replica, which is nobody's. One that its worker has no room for under its
// limit of volumes is Exhausted. When it fails nothing is left but, if the worker is away, a row that says what to destroy. A parent that is not
// sealed any more is NotFound, as it is where the worker does not have it.
func (h *Host) createVolume(ctx context.Context, w *worker, owner string, row store.Volume, spec sdk.VolumeSpec) (store.Volume, error) {
	row.ID, row.Token = newID("v"), string(sdk.NewToken())
	row.Worker, row.CreatedAt = w.name, h.clock.wall()
	spec.ID, spec.Token = sdk.VolumeID(row.ID), sdk.Token(row.Token)
	if err := h.queue.Make(w.name, owner, row.Artifact); err != nil {
		return row, &sdk.Error{Class: sdk.Exhausted, Reason: sdk.ReasonStorage, Cause: err, Message: err.Error()}
	}
	if row.Container == "" {
		h.busy.add(row.ID) // until it is sealed or given up
	}
	err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		if row.Parent != "" {
			if parent, err := tx.Volume(row.Parent); ignoreNotFound(err) != nil {
				return err
			} else if parent.State != lifecycle.VolumeSealed {
				return sdk.NewNotFound(sdk.KindVolume, row.Parent)
			}
		}
		m, err := h.moveVolume(tx, row.ID, lifecycle.Claimed, func(v *store.Volume) error {
			*v = row
			return nil
		})
		if err == nil {
			row = m.row
		}
		return err
	})
	if err != nil {
		h.index.ChangeVolume(pool.VolumeChange{Worker: w.name, Was: pool.VolumeState{Stage: pool.Making, Key: row.Artifact}})
		h.busy.remove(row.ID)
		return row, err
	}
	h.fault("volume-intent")
	err = w.call(ctx, "create volume", func(ctx context.Context, c sdk.Worker) error { return c.CreateVolume(ctx, spec) })
	h.fault("volume-made")
	if err == nil {
		err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
			m, err := h.moveVolume(tx, row.ID, lifecycle.Made, nil)
			if err == nil {
				row = m.row
			}
			return lostMeanwhile(w.name, err)
		})
	}
	if err != nil {
		h.discardVolume(ctx, row)
	}
	return row, err
}

// sealVolume has the worker end the writing of a volume. Its row says so once it is kept.
func (h *Host) sealVolume(ctx context.Context, row store.Volume) error {
	w, err := h.worker(row.Worker)
	if err != nil {
		return err
	}
	return w.call(ctx, "seal volume", func(ctx context.Context, c sdk.Worker) error {
		return c.SealVolume(ctx, sdk.VolumeID(row.ID))
	})
}

// keepVolume notes that a volume is sealed, and that its content is an artifact's from now on.
func (h *Host) keepVolume(tx *store.Tx, row store.Volume, artifact string, bytes int64) (store.Volume, error) {
	m, err := h.moveVolume(tx, row.ID, lifecycle.Sealed, func(v *store.Volume) error {
		v.Artifact, v.Container, v.Bytes = artifact, "", bytes
		return nil
	})
	return m.row, lostMeanwhile(row.Worker, err)
}

// volumes lists rows.
func (h *Host) volumes(ctx context.Context, f store.VolumeFilter) (rows []store.Volume, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		rows, err = tx.Volumes(f)
		return err
	})
	return rows, err
}

// volume gives one row.
func (h *Host) volume(ctx context.Context, id string) (row store.Volume, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Volume(id)
		return err
	})
	return row, err
}
