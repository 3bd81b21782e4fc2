package host

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
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
	within := destroyPatience
	if !with {
		within = c.worker.goneIn
	}
	return c.h.destroyContainer(ctx, string(c.id), doom{volumes: with}, within)
}

// doom says what else is noted when a container is to be destroyed.
type doom struct {
	volumes bool // all that it has goes, too
	disown  bool // its owner may ask again at once
}

// destroyContainer destroys a container on its worker. Of one that is over already, only the volumes are noted.
func (h *Host) destroyContainer(ctx context.Context, id string, d doom, within time.Duration) (err error) {
	var m moved[store.Container]
	defer func() { h.owes(m.row.Worker, &err) }()
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		m, err = h.doomContainer(tx, id, d)
		return err
	})
	if err != nil || !m.yes {
		return err
	}
	h.fault("destroy-intent")
	w, err := h.worker(m.row.Worker)
	if err != nil {
		return err
	}
	err = w.callWithin(ctx, within, "destroy container", func(ctx context.Context, c sdk.Worker) error {
		return c.DestroyContainer(ctx, sdk.ContainerID(id))
	})
	if err != nil {
		return err
	}
	h.fault("destroyed")
	if m.row.Owner == "" {
		return nil // nobody asks for its record: it is discarded once its volumes are gone, too
	}
	return h.endContainer(ctx, id)
}

// doomContainer notes that a container, and what else d says, is to be destroyed.
func (h *Host) doomContainer(tx *store.Tx, id string, d doom) (moved[store.Container], error) {
	m, err := h.moveContainer(tx, id, lifecycle.Doomed, func(row *store.Container) error {
		if d.disown {
			row.Owner = ""
		}
		return nil
	})
	if err != nil || !d.volumes {
		return m, err
	}
	volumes, err := tx.Volumes(store.VolumeFilter{Container: id})
	if err != nil {
		return m, err
	}
	for _, v := range volumes {
		if _, err := h.moveVolume(tx, v.ID, lifecycle.Doomed, nil); err != nil {
			return m, err
		}
	}
	return m, nil
}

// endContainer notes that a worker does not have a container any more. Of one that nobody owns, no record is kept.
func (h *Host) endContainer(ctx context.Context, id string) error {
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveContainer(tx, id, lifecycle.Destroyed, nil)
		return err
	})
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
	if err := c.h.discardContainer(ctx, string(c.id)); err != nil {
		c.h.log.Warn("a half-made container stays until its worker is back", "container", c.id, "worker", c.worker.name, "error", err)
	}
}

// discardContainer removes a container, its volumes, and every record of it.
func (h *Host) discardContainer(ctx context.Context, id string) error {
	if err := h.destroyContainer(ctx, id, doom{volumes: true, disown: true}, destroyPatience); err != nil {
		return err
	}
	volumes, err := h.volumes(ctx, store.VolumeFilter{Container: id})
	if err != nil {
		return err
	}
	if err := h.destroyVolumes(ctx, volumes); err != nil {
		return err
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveContainer(tx, id, lifecycle.Discarded, nil)
		return err
	})
}
