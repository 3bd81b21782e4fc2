package host

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Destroy kills what runs in the container and removes it with all its volumes, outputs that were not sealed too. Idempotent.
// The record of what ran in it stays.
func (c *Container) Destroy(ctx context.Context) error {
	if err := c.destroyOnly(ctx, true); err != nil {
		return err
	}
	return c.destroyVolumes(ctx)
}

// destroyOnly destroys the container; with, its volumes are noted as to be destroyed in the same moment. Without, something is still wanted
// of it, and a worker that is away is waited for.
func (c *Container) destroyOnly(ctx context.Context, with bool) error {
	row, err := c.current(ctx)
	if err != nil || row.State == containerDestroyed || row.State == containerLost {
		return err
	}
	within := destroyPatience
	if !with {
		within = c.worker.goneIn
	}
	return c.h.destroyContainer(ctx, row, with, within)
}

func (c *Container) current(ctx context.Context) (row store.Container, err error) {
	err = c.h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Container(string(c.id))
		return err
	})
	return row, err
}

func (h *Host) destroyContainer(ctx context.Context, row store.Container, volumes bool, within time.Duration) (err error) {
	defer h.owes(row.Worker, &err)
	row.State, row.UpdatedAt = containerDestroying, time.Now()
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		if err := tx.PutContainer(row); err != nil || !volumes {
			return err
		}
		rows, err := tx.Volumes(store.VolumeFilter{Container: row.ID})
		if err != nil {
			return err
		}
		for _, v := range rows {
			v.State = volumeDestroying
			if err := tx.PutVolume(v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.fault("destroy-intent")
	w, err := h.worker(row.Worker)
	if err != nil {
		return err
	}
	err = w.callWithin(ctx, within, "destroy container", func(ctx context.Context, c sdk.Worker) error {
		return c.DestroyContainer(ctx, sdk.ContainerID(row.ID))
	})
	if err != nil {
		return err
	}
	h.fault("destroyed")
	h.index.Release(row.Owner)
	row.State, row.UpdatedAt = containerDestroyed, time.Now()
	return h.putContainer(ctx, row)
}

// putContainer writes a row that has changed its state; that leads to space being freed.
func (h *Host) putContainer(ctx context.Context, row store.Container) error {
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.PutContainer(row) })
}

func (c *Container) destroyVolumes(ctx context.Context) (err error) {
	defer c.h.owes(c.worker.name, &err)
	rows, err := c.h.volumes(ctx, store.VolumeFilter{Container: string(c.id)})
	if err != nil {
		return err
	}
	return c.h.destroyVolumes(ctx, rows)
}

// discard undoes a container in which no process was started. Its owner may ask again at once.
func (c *Container) discard(ctx context.Context) {
	ctx, cancel := c.h.cleanup(ctx)
	defer cancel()
	row, err := c.current(ctx)
	if err == nil {
		row.Owner = ""
		err = c.h.discardContainer(ctx, row)
	}
	if err != nil {
		c.h.log.Warn("a half-made container stays until its worker is back", "container", c.id, "worker", c.worker.name, "error", err)
	}
}

// discardContainer removes a container that nobody owns, its volumes, and every record of it.
func (h *Host) discardContainer(ctx context.Context, row store.Container) error {
	if row.State != containerLost {
		if err := h.destroyContainer(ctx, row, true, destroyPatience); err != nil {
			return err
		}
	}
	rows, err := h.volumes(ctx, store.VolumeFilter{Container: row.ID})
	if err != nil {
		return err
	}
	if err := h.destroyVolumes(ctx, rows); err != nil {
		return err
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.DeleteContainer(row.ID) })
}
