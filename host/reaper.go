package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// reapEvery is how often the host looks for what nobody knows.
const reapEvery = time.Minute

// reap destroys what this installation made and has no record of, and forgets old runs, until the host closes. A worker that is away or hangs holds
// up only itself.
func (h *Host) reap() {
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.ctx.Done():
			return
		}
		var sweeps sync.WaitGroup
		for _, w := range h.sortedWorkers() {
			if !w.report().Up {
				continue
			}
			sweeps.Go(func() {
				if err := h.reapWorker(w); err != nil && h.ctx.Err() == nil {
					h.log.Warn("looking for things without a record failed", "worker", w.name, "error", err)
				}
			})
		}
		sweeps.Wait() // each is bounded by reapEvery
		if err := h.forget(h.ctx, time.Now().Add(-recordRetention)); err != nil && h.ctx.Err() == nil {
			h.log.Warn("forgetting old runs failed", "error", err)
		}
	}
}

func (h *Host) reapWorker(w *worker) error {
	ctx, cancel := context.WithTimeout(h.ctx, reapEvery)
	defer cancel()
	// Listed first, looked up second: what is made in between has its row before it is listed.
	var listed []reap.Thing
	ours := sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}
	err := w.call(ctx, "list", func(ctx context.Context, c sdk.Worker) error {
		listed = listed[:0]
		err := c.ListContainers(ctx, ours, func(i sdk.ContainerInfo) error {
			listed = append(listed, reap.Thing{ID: string(i.ID), Kind: "container"})
			return nil
		})
		if err != nil {
			return err
		}
		return c.ListVolumes(ctx, ours, func(i sdk.VolumeInfo) error {
			listed = append(listed, reap.Thing{ID: string(i.ID), Kind: "volume"})
			return nil
		})
	})
	if err != nil {
		return err
	}
	known := make(map[reap.Thing]bool)
	err = h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{Worker: w.name})
		if err != nil {
			return err
		}
		for _, c := range containers {
			if c.State != containerDestroyed && c.State != containerLost {
				known[reap.Thing{ID: c.ID, Kind: "container"}] = true
			}
		}
		volumes, err := tx.Volumes(store.VolumeFilter{Worker: w.name})
		for _, v := range volumes {
			known[reap.Thing{ID: v.ID, Kind: "volume"}] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	doomed, unknown := reap.Mark(listed, known, w.unknown, time.Now(), h.cfg.Timing.MissingGrace)
	w.unknown = unknown
	var errs []error
	for _, d := range doomed {
		h.log.Info("destroying what has no record", "worker", w.name, "kind", d.Kind, "id", d.ID, "reason", d.Reason)
		err := w.call(ctx, "destroy "+d.Kind, func(ctx context.Context, c sdk.Worker) error {
			if d.Kind == "container" {
				return c.DestroyContainer(ctx, sdk.ContainerID(d.ID))
			}
			return c.DestroyVolume(ctx, sdk.VolumeID(d.ID))
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
