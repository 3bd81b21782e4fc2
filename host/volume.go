package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// States of a volume's row. A row on the way is the intent: it is there before the call.
const (
	volumeCreating   = "creating"
	volumeOpen       = "open"
	volumeSealed     = "sealed"
	volumeDestroying = "destroying"
)

// What a volume is for.
const (
	roleReplica = "replica" // sealed content of an artifact
	roleInput   = "input"   // a container's own clone of one
	roleOutput  = "output"  // becomes an artifact when its step has ended
	roleCache   = "cache"   // becomes one when its step has succeeded
)

// createVolume makes a volume. When it fails nothing is left but, if the worker is away, a row that says what to destroy.
func (h *Host) createVolume(ctx context.Context, w *worker, row store.Volume, spec sdk.VolumeSpec) (store.Volume, error) {
	row.ID, row.Token = newID("v"), string(sdk.NewToken())
	row.Worker, row.State, row.CreatedAt = w.name, volumeCreating, time.Now()
	spec.ID, spec.Token = sdk.VolumeID(row.ID), sdk.Token(row.Token)
	if row.Container == "" {
		h.busy.add(row.ID) // until it is sealed or given up
	}
	if err := h.putVolume(ctx, row); err != nil {
		h.busy.remove(row.ID)
		return row, err
	}
	h.fault("volume-intent")
	err := w.call(ctx, "create volume", func(ctx context.Context, c sdk.Worker) error { return c.CreateVolume(ctx, spec) })
	h.fault("volume-made")
	if err == nil {
		row.State = volumeOpen
		err = h.putVolume(ctx, row)
	}
	if err != nil {
		h.discardVolume(ctx, row)
	}
	return row, err
}

// sealVolume ends the writing of a volume.
func (h *Host) sealVolume(ctx context.Context, row store.Volume) (store.Volume, error) {
	w, err := h.worker(row.Worker)
	if err != nil {
		return row, err
	}
	err = w.call(ctx, "seal volume", func(ctx context.Context, c sdk.Worker) error {
		return c.SealVolume(ctx, sdk.VolumeID(row.ID))
	})
	if err != nil {
		return row, err
	}
	row.State = volumeSealed
	return row, nil
}

// destroyVolume removes a volume from its worker, then its row.
func (h *Host) destroyVolume(ctx context.Context, row store.Volume) (err error) {
	defer h.owes(row.Worker, &err)
	h.busy.remove(row.ID)
	if row.State == volumeSealed && row.Artifact != "" {
		h.index.RemoveVolume(row.Worker, row.Artifact)
	}
	row.State = volumeDestroying
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.PutVolume(row) })
	if err != nil {
		return err
	}
	w, err := h.worker(row.Worker)
	if err != nil {
		return err
	}
	err = w.callWithin(ctx, destroyPatience, "destroy volume", func(ctx context.Context, c sdk.Worker) error {
		return c.DestroyVolume(ctx, sdk.VolumeID(row.ID))
	})
	if err != nil {
		return err
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.DeleteVolume(row.ID) })
}

// discardVolume undoes what came of a volume. What cannot be undone now keeps its row, and is when its worker is back.
func (h *Host) discardVolume(ctx context.Context, row store.Volume) {
	ctx, cancel := h.cleanup(ctx)
	defer cancel()
	if err := h.destroyVolume(ctx, row); err != nil {
		h.log.Warn("a volume stays until its worker is back", "volume", row.ID, "worker", row.Worker, "error", err)
	}
}

func (h *Host) putVolume(ctx context.Context, row store.Volume) error {
	err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.PutVolume(row) })
	if err == nil && row.State == volumeSealed {
		h.busy.remove(row.ID)
	}
	return err
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

// destroyVolumes destroys many, and tells of each that it could not.
func (h *Host) destroyVolumes(ctx context.Context, rows []store.Volume) error {
	var errs []error
	for _, row := range rows {
		if err := h.destroyVolume(ctx, row); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", row.ID, err))
		}
	}
	return errors.Join(errs...)
}
