package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// blockedError says what has to go before a thing can be destroyed.
type blockedError struct{ by []reap.Thing }

func (e *blockedError) Error() string { return fmt.Sprintf("%s has to go before it", describe(e.by)) }

// pay destroys a thing that is owed, and notes it. What has a row that does not say so is not. One that has no row any more is destroyed, too: its worker
// may have got it after it had lost all that was recorded of it.
// Called is called once the worker has answered.
func (r *reconciler) pay(w *worker, conn sdk.Worker, t reap.Thing, called func()) error {
	if t.Kind == reap.Container {
		return r.h.payContainer(r.h.ctx, w, conn, t.ID, called)
	}
	return r.h.payVolume(r.h.ctx, w, conn, t.ID, called)
}

func (h *Host) payContainer(ctx context.Context, w *worker, conn sdk.Worker, id string, called func()) error {
	owed := false
	err := h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Container(id)
		owed = row.State != lifecycle.ContainerCreating && row.State != lifecycle.ContainerReady
		return ignoreNotFound(err)
	})
	if err != nil || !owed {
		return err
	}
	h.fault("destroy-intent")
	err = w.ask(ctx, "destroy container", func(ctx context.Context, _ func()) error {
		return conn.DestroyContainer(ctx, sdk.ContainerID(id))
	})
	called()
	if err != nil {
		return err
	}
	h.fault("destroyed")
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		m, err := h.moveContainer(tx, id, lifecycle.Destroyed, nil)
		if err == nil && m.yes && m.row.Owner == "" { // it was made in vain: nobody wants what it has
			_, err = h.doomVolumes(tx, id)
		}
		return err
	})
}

func (h *Host) payVolume(ctx context.Context, w *worker, conn sdk.Worker, id string, called func()) error {
	owed := false
	err := h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Volume(id)
		if err = ignoreNotFound(err); err != nil {
			return err
		}
		if owed = row.State == lifecycle.None || row.State == lifecycle.VolumeDestroying; !owed {
			return nil
		}
		by, err := needers(tx, w.name, id, row.Container)
		if err == nil && len(by) > 0 {
			err = &blockedError{by}
		}
		return err
	})
	if err != nil || !owed {
		return err
	}
	err = w.ask(ctx, "destroy volume", func(ctx context.Context, _ func()) error {
		return conn.DestroyVolume(ctx, sdk.VolumeID(id))
	})
	called()
	if err != nil {
		return err
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveVolume(tx, id, lifecycle.Destroyed, nil)
		return err
	})
}

// needers lists what has to be destroyed on a worker before a volume: its clones, and the containers that have it. One that belongs to a container no
// other has; so most are looked up by that, and not in all containers.
func needers(tx *store.Tx, worker, id, container string) (by []reap.Thing, err error) {
	clones, err := tx.Volumes(store.VolumeFilter{Parent: id, Worker: worker})
	if err != nil {
		return nil, err
	}
	for _, c := range clones {
		by = append(by, volumeThing(c.ID))
	}
	var containers []store.Container
	if container != "" {
		c, err := tx.Container(container)
		if ignoreNotFound(err) != nil {
			return nil, err
		}
		if c.State == lifecycle.ContainerCreating || c.State == lifecycle.ContainerReady || c.State == lifecycle.ContainerDestroying {
			containers = append(containers, c)
		}
	} else if containers, err = tx.Containers(store.ContainerFilter{Worker: worker,
		States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}}); err != nil {
		return nil, err
	}
	for _, c := range containers {
		mounted, err := mountedBy(c)
		if err != nil {
			return nil, err
		}
		if slices.Contains(mounted, id) {
			by = append(by, containerThing(c.ID))
		}
	}
	return by, nil
}
