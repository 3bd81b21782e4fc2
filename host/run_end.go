package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// end keeps the run's result and destroys what else is left of it but its records and output. A full disk is waited for, by a run that was interrupted for as long as it may
// take to end.
func (r *run) end(ctx context.Context, result *RunResult) error {
	text, err := json.Marshal(record(result))
	if err != nil {
		return err
	}
	within, stop := r.h.outliving(ctx)
	defer stop()
	err = r.storing(within, "", whileEnding, r.tell, func() error {
		return r.h.store.Release(context.WithoutCancel(ctx), store.KillSafe, func(tx *store.Tx) error {
			return errors.Join(r.h.doomUnfinished(tx, r.id), r.h.endRunRow(tx, r.id, lifecycle.Settled, text))
		})
	})
	switch {
	case err != nil && r.h.ctx.Err() != nil:
		return fmt.Errorf("run %s can be resumed: %w", r.id, ErrClosed)
	case lacksRoom(err):
		return fmt.Errorf("what run %s came to cannot be kept; resume it once there is room: %w", r.id, err)
	case err != nil:
		return err
	}
	r.h.fault("run-kept")
	return r.storing(within, "", whileEnding, r.tell, func() error {
		ctx, cancel := r.h.cleanup(ctx)
		defer cancel()
		return r.sweep(ctx)
	})
}

// doomUnfinished notes that what a run still has in containers is to be destroyed: of steps that had ended for this host before it had found their containers again, say.
// Those that are kept for people to look at stay.
func (h *Host) doomUnfinished(tx *store.Tx, run string) error {
	containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(run, ""), States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady}})
	if err != nil {
		return err
	}
	for _, c := range containers {
		var kept containerRecord
		if err := json.Unmarshal(c.Spec, &kept); err != nil {
			return fmt.Errorf("record of container %s: %w", c.ID, err)
		}
		if kept.Kept {
			continue
		}
		if _, err := h.doomContainer(tx, c.ID, doom{volumes: true}); err != nil {
			return err
		}
	}
	return nil
}

// sweep ends a run whose result is kept.
func (r *run) sweep(ctx context.Context) error {
	var rows []store.Artifact
	err := r.h.store.View(ctx, func(tx *store.Tx) (err error) {
		rows, err = tx.Artifacts(store.ArtifactFilter{OwnerPrefix: r.owner("")})
		return err
	})
	if err != nil {
		return err
	}
	var doomed []doomed
	waits, err := removeArtifacts(rows, func(a *Artifact) error {
		d, err := r.h.giveUpArtifact(ctx, a, nil)
		doomed = append(doomed, d...)
		return err
	})
	if waits && r.h.settings.keepFailed.Load() {
		err = nil // for the container of a step that failed: they go after that
	}
	if err = errors.Join(err, r.h.sweptRun(ctx, r.id)); err != nil {
		return err
	}
	left, err := r.h.owedOf(ctx, r.id)
	if err == nil {
		err = r.h.awaitAllGone(ctx, append(left, doomed...))
	}
	if err != nil {
		r.h.log.Warn("what is left of a run stays on its workers for now; it is destroyed as soon as that works", "run", r.id, "error", err)
	}
	return nil
}

// owedOf lists what is still to be destroyed of the containers of a run.
func (h *Host) owedOf(ctx context.Context, run string) (out []doomed, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(run, "")})
		if err != nil {
			return err
		}
		for _, c := range containers {
			d := doomed{worker: c.Worker}
			if c.State == lifecycle.ContainerDestroying {
				d.things = append(d.things, containerThing(c.ID))
			}
			rows, err := tx.Volumes(store.VolumeFilter{Container: c.ID, States: []string{lifecycle.VolumeDestroying}})
			if err != nil {
				return err
			}
			d.things = append(d.things, things(rows)...)
			out = append(out, d)
		}
		return nil
	})
	return out, err
}

// removeArtifacts removes artifacts by a call for each: those last of which others are copies, as an output at an input's path is. It tells
// whether all that is left waits for those who use it.
func removeArtifacts(rows []store.Artifact, remove func(*Artifact) error) (waits bool, err error) {
	for {
		var errs []error
		var inUse []store.Artifact
		for _, row := range rows {
			err := remove(&Artifact{ID: row.ID, Name: row.Name})
			if errors.Is(err, sdk.ReasonInUse) {
				inUse = append(inUse, row)
			}
			errs = append(errs, err)
		}
		if len(inUse) == 0 || len(inUse) == len(rows) {
			return len(inUse) > 0, errors.Join(errs...)
		}
		rows = inUse
	}
}

// endRunRow keeps what a run came to, whose steps do not go on.
func (h *Host) endRunRow(tx *store.Tx, id string, e lifecycle.Event, result []byte) error {
	if err := forgetSteps(tx, id); err != nil {
		return err
	}
	_, err := runLife.move(tx, id, e, func(row *store.Run) error {
		row.Result, row.EndedAt = result, h.clock.wall()
		return nil
	})
	return err
}

// sweptRun notes that nothing is left of a run that has ended but its record and output.
func (h *Host) sweptRun(ctx context.Context, id string) error {
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := runLife.move(tx, id, lifecycle.Swept, nil)
		return err
	})
}
