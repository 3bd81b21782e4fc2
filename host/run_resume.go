package host

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// resumable refuses to go on with a run that was begun otherwise, before anything of it is touched: with workers that this host does not have, or with
// other directories as its inputs. A run that was not begun yet can be. What has ended of it is known then.
func (r *run) resumable(ctx context.Context) error {
	return r.h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Run(r.id)
		if err != nil || row.State != lifecycle.RunGoing {
			return ignoreNotFound(err)
		}
		unknown, err := r.h.unknownWorkers(tx, r.id)
		if err != nil {
			return err
		}
		if len(unknown) > 0 {
			return sdk.NewInvalid(sdk.ReasonConfig, "run %s has begun on worker %s, and this configuration has only %s: resume it with the configuration that it was begun with, or give it up: slipway run --abort %s",
				r.id, list(unknown), list(r.h.workerNames()), r.id)
		}
		for _, name := range slices.Sorted(maps.Keys(r.req.Inputs)) {
			a, err := tx.ArtifactByName(r.inputName(name))
			if ignoreNotFound(err) != nil {
				return err
			}
			if err := SameInput(r.id, name, a.Source, r.req.Inputs[name]); err != nil {
				return err
			}
		}
		r.ended, r.lost, err = keptSteps(tx, r.id)
		for _, s := range r.ended {
			if s.Fed { // nobody can repeat it
				r.stdin = nil
			}
		}
		return err
	})
}

// SameInput refuses a directory as an input of a run that was begun with another, as far as that was said: its content would silently not be used.
func SameInput(run, input, source, dir string) error {
	if dir = absolute(dir); source == "" || source == dir {
		return nil
	}
	return sdk.NewInvalid(sdk.ReasonSpec, "run %s was begun with %s as its input %q, not with %s: resume it with that, or give another id", run, source, input, dir)
}

// unknownWorkers lists the workers that have something which a run needs to go on, and that this host does not have.
func (h *Host) unknownWorkers(tx *store.Tx, run string) ([]string, error) {
	unknown := make(map[string]bool)
	note := func(worker string) {
		if _, err := h.worker(worker); err != nil {
			unknown[worker] = true
		}
	}
	containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(run, "")})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		if c.State != lifecycle.ContainerDestroyed && c.State != lifecycle.ContainerLost {
			note(c.Worker)
		}
		rows, err := tx.Volumes(store.VolumeFilter{Container: c.ID})
		if err != nil {
			return nil, err
		}
		for _, v := range rows { // outputs that are still to be sealed, say
			if v.State != lifecycle.VolumeDestroying {
				note(v.Worker)
			}
		}
	}
	artifacts, err := tx.Artifacts(store.ArtifactFilter{OwnerPrefix: RunOwner(run, "")})
	if err != nil {
		return nil, err
	}
	for _, a := range artifacts {
		rows, err := tx.Volumes(store.VolumeFilter{Artifact: a.ID, States: []string{lifecycle.VolumeSealed}})
		if err != nil {
			return nil, err
		}
		known := slices.ContainsFunc(rows, func(v store.Volume) bool { _, err := h.worker(v.Worker); return err == nil })
		for _, v := range rows {
			if !known && a.Blob == "" && a.Source == "" { // what came from a directory of this machine can be read again
				note(v.Worker)
			}
		}
	}
	return slices.Sorted(maps.Keys(unknown)), nil
}

func (h *Host) workerNames() (names []string) {
	for _, w := range h.sortedWorkers() {
		names = append(names, w.name)
	}
	return names
}

// addInputs makes the directories of the request artifacts of the run, and takes those that are artifacts already.
func (r *run) addInputs(ctx context.Context) error {
	for _, in := range r.req.Job.Inputs {
		if r.req.Brought[in.Name] != nil {
			continue
		}
		a := r.req.Artifacts[in.Name]
		if a == nil {
			var err error
			if a, err = r.h.addDir(ctx, r.inputName(in.Name), r.owner(""), r.req.Inputs[in.Name], absolute(r.req.Inputs[in.Name])); err != nil {
				return err
			}
		}
		r.artifacts[job.Ref{Input: in.Name}] = a
	}
	return nil
}

// absolute is a path as it is from anywhere; as it was given where that cannot be told.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// AbortRun gives up a run that is not under way, for its operator: what it has on workers is destroyed, and it has ended. A process that still runs is killed
// with its container. It waits, for half a minute at most, until all of that is gone but what stays on workers that are away, or refuse it ([Host.AwaitOwed]). Of a run that has ended it
// changes nothing. One that is under way in this host is a *RunBusyError: end its context. One that is not there is NotFound.
func (h *Host) AbortRun(ctx context.Context, id string) (*RunResult, error) {
	if !h.enterRun(id) {
		return nil, &RunBusyError{ID: id}
	}
	defer h.visited(id)
	err := h.store.View(ctx, func(tx *store.Tx) error {
		_, err := tx.Run(id)
		return noRun(id, err)
	})
	if err != nil {
		return nil, err
	}
	err = h.endRun(ctx, id, func(_ *store.Tx, row store.Run) (string, error) {
		switch row.State {
		case lifecycle.RunGoing:
			return "its operator has given it up", nil
		case lifecycle.RunEnding:
			return "it has ended", nil
		}
		return "", nil
	})
	if err != nil && err != errChanged {
		return nil, fmt.Errorf("give up run %s: %w", id, err)
	}
	wctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	h.AwaitOwed(wctx)
	return h.RunResult(ctx, id)
}
