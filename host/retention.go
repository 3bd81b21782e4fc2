package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
)

// forget removes the records and the output of runs that ended before a time, and of containers of other owners that were over before
// it. Such an owner is a new one then.
func (h *Host) forget(ctx context.Context, before time.Time) error {
	var runs []store.Run
	var over []store.Container
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		if runs, err = tx.Runs(store.RunFilter{States: []string{lifecycle.RunEnded}, EndedBefore: before}); err != nil {
			return err
		}
		over, err = tx.Containers(store.ContainerFilter{States: []string{lifecycle.ContainerDestroyed, lifecycle.ContainerLost}, UpdatedBefore: before})
		return err
	})
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := h.forgetIn(ctx, func(tx *store.Tx) ([]string, error) { return forgetRun(tx, run.ID) }); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(over, forgetAtOnce) {
		if err := h.forgetIn(ctx, func(tx *store.Tx) ([]string, error) { return forgetContainers(tx, some) }); err != nil {
			return err
		}
	}
	return nil
}

// forgetAtOnce bounds how many containers go in one transaction: steps that wait to be written wait for it.
const forgetAtOnce = 100

// forgetIn makes one transaction that names the outputs of what it forgets, and removes those then.
func (h *Host) forgetIn(ctx context.Context, do func(*store.Tx) (outputs []string, err error)) error {
	var outputs []string
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		outputs, err = do(tx)
		return err
	})
	if err != nil {
		return err
	}
	h.fault("forgot")
	return h.removeOutputs(ctx, outputs)
}

// removeOutputs removes what processes wrote that have no row any more. What could not be removed is by [Host.removeStray].
func (h *Host) removeOutputs(ctx context.Context, ids []string) error {
	var errs []error
	for _, id := range ids {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		if err := h.spool.Remove(id); err != nil {
			errs = append(errs, fmt.Errorf("remove the output of process %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// removeStray removes the output of processes that were forgotten while it could not be removed, as when the host was killed just then. A
// process has its row before it has an output, and for longer; so the outputs are listed first.
func (h *Host) removeStray(ctx context.Context) error {
	stored, err := h.spool.IDs()
	if err != nil || len(stored) == 0 {
		return err
	}
	var known []string
	err = h.store.View(ctx, func(tx *store.Tx) error {
		known, err = tx.ProcessIDs()
		return err
	})
	if err != nil {
		return err
	}
	stray := slices.DeleteFunc(stored, func(id string) bool {
		_, is := slices.BinarySearch(known, id)
		return is
	})
	if len(stray) > 0 {
		h.log.Info("removing the output of processes that are forgotten", "processes", len(stray))
	}
	return h.removeOutputs(ctx, stray)
}

// forgetRun removes a run's rows, and names the outputs of its processes. What is still to be destroyed on a worker keeps its row, and
// the run with it; so do its artifacts, which would be somebody's for ever who is not known.
func forgetRun(tx *store.Tx, id string) (outputs []string, err error) {
	artifacts, err := tx.Artifacts(store.ArtifactFilter{OwnerPrefix: RunOwner(id, "")})
	if err != nil || len(artifacts) > 0 {
		return nil, err
	}
	containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(id, "")})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		if c.State != lifecycle.ContainerDestroyed && c.State != lifecycle.ContainerLost {
			return nil, nil
		}
	}
	for _, c := range containers {
		ended, err := forgetContainer(tx, c.ID)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, ended...)
	}
	_, err = runLife.move(tx, id, lifecycle.Forgotten, nil)
	return outputs, err
}

// forgetContainers removes the rows of those containers that no run has. They are over, which does not change.
func forgetContainers(tx *store.Tx, containers []store.Container) (outputs []string, err error) {
	for _, c := range containers {
		if _, err := tx.Container(c.ID); err != nil {
			if errors.Is(err, store.ErrNotFound) { // its worker was pruned meanwhile
				continue
			}
			return nil, err
		}
		if _, err := tx.Run(RunOf(c.Owner)); !errors.Is(err, store.ErrNotFound) { // it goes with its run
			if err != nil {
				return nil, err
			}
			continue
		}
		volumes, err := tx.Volumes(store.VolumeFilter{Container: c.ID})
		if err != nil {
			return nil, err
		}
		if len(volumes) > 0 {
			continue
		}
		ended, err := forgetContainer(tx, c.ID)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, ended...)
	}
	return outputs, nil
}

// forgetContainer removes a container's rows, and names the outputs of its processes.
func forgetContainer(tx *store.Tx, id string) (outputs []string, err error) {
	processes, err := tx.Processes(store.ProcessFilter{Container: id})
	if err != nil {
		return nil, err
	}
	for _, p := range processes {
		outputs = append(outputs, p.ID)
		if _, err := processLife.move(tx, p.ID, lifecycle.Forgotten, nil); err != nil {
			return nil, err
		}
	}
	_, err = containerLife.move(tx, id, lifecycle.Forgotten, nil)
	return outputs, err
}
