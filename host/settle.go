package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// loadLeases tells placement what the state directory says of containers and volumes, and names the workers that have any.
func (h *Host) loadLeases(ctx context.Context) (known []string, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}})
		if err != nil {
			return err
		}
		for _, c := range containers {
			if !leased(c) {
				continue
			}
			known = append(known, c.Worker)
			var r containerRecord
			if err := json.Unmarshal(c.Spec, &r); err != nil {
				return fmt.Errorf("record of container %s: %w", c.ID, err)
			}
			if r.Kept {
				continue
			}
			if err := h.index.Acquire(pool.Lease{Owner: c.Owner, Worker: c.Worker, Team: c.Team, Kind: r.Kind,
				Resources: r.Claims.Resources}); err != nil { // its volumes are there: what was not made by now is not made any more
				return err
			}
		}
		volumes, err := tx.Volumes(store.VolumeFilter{})
		for _, v := range volumes { // what is sealed is told as content once its worker is there
			h.index.ChangeVolume(pool.VolumeChange{Worker: v.Worker, Is: volumeState(v)})
		}
		return err
	})
	return known, err
}

// loadContent tells placement what content a worker has.
func (h *Host) loadContent(ctx context.Context, w *worker) error {
	rows, err := h.volumes(ctx, store.VolumeFilter{Worker: w.name, States: []string{lifecycle.VolumeSealed}})
	for _, v := range rows {
		if v.Artifact != "" {
			h.index.AddVolume(v.Worker, v.Artifact, v.Bytes)
		}
	}
	return err
}

// checkIncarnation compares the worker's two stores with what was known of them. What lay in a store that is no more is lost at
// once: its rows say so when this returns.
func (h *Host) checkIncarnation(ctx context.Context, w *worker, s sdk.Status) (changed bool, err error) {
	var known store.Worker
	err = h.store.View(ctx, func(tx *store.Tx) error {
		known, err = tx.Worker(w.name)
		return err
	})
	if err == nil && (s.ContainerIncarnation == "" || s.ContainerIncarnation == known.ContainerIncarnation) &&
		(s.VolumeIncarnation == "" || s.VolumeIncarnation == known.VolumeIncarnation) {
		return false, nil // nothing is written: a full disk must not take a worker away
	}
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { // nothing can be destroyed on a worker that is kept away for this
		changed = false
		row, err := tx.Worker(w.name)
		if errors.Is(err, store.ErrNotFound) {
			row, err = store.Worker{ID: w.name}, nil
		}
		if err != nil {
			return err
		}
		now := row
		if replaced(row.ContainerIncarnation, s.ContainerIncarnation) {
			changed = true
			reason := "worker " + w.name + " came back without what it had: it runs a new incarnation"
			if err := h.loseContainers(tx, w.name, reason); err != nil {
				return err
			}
		}
		if replaced(row.VolumeIncarnation, s.VolumeIncarnation) {
			changed = true
			if err := h.loseVolumes(tx, w.name); err != nil {
				return err
			}
		}
		if s.ContainerIncarnation != "" {
			now.ContainerIncarnation = s.ContainerIncarnation
		}
		if s.VolumeIncarnation != "" {
			now.VolumeIncarnation = s.VolumeIncarnation
		}
		if now == row {
			return nil
		}
		return tx.PutWorker(now)
	})
	return changed, err
}

// replaced tells whether a store is another one than before. Empty means unknown, never a change.
func replaced(before, now string) bool { return before != "" && now != "" && before != now }

func (h *Host) loseContainers(tx *store.Tx, worker, reason string) error {
	rows, err := tx.Containers(store.ContainerFilter{Worker: worker, States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerDestroying}})
	if err != nil {
		return err
	}
	for _, row := range rows {
		_, err := h.moveContainer(tx, row.ID, lifecycle.Replaced, func(c *store.Container) error {
			if c.State != lifecycle.ContainerDestroying { // that is destroyed, by whoever replaced the store
				c.Reason = reason
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) loseVolumes(tx *store.Tx, worker string) error {
	rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := h.moveVolume(tx, row.ID, lifecycle.Replaced, nil); err != nil {
			return err
		}
	}
	return nil
}

// loseContainer notes that a worker does not have a container any more; errChanged: it is over already, or about to be.
func (h *Host) loseContainer(ctx context.Context, id, reason string) error {
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		m, err := h.moveContainer(tx, id, lifecycle.Missing, func(row *store.Container) error {
			row.Reason = reason
			return nil
		})
		if err == nil && !m.yes {
			err = errChanged // whoever destroys it would find it lost, and its process with it
		}
		return err
	})
}

// settle ends what an earlier host began on a worker that nobody can use yet: what took effect is adopted, and what did not is owed from now on;
// what ran is followed on. That happens once in a host's life, for afterwards what is on the way belongs to a caller who is waiting.
func (h *Host) settle(ctx context.Context, w *worker, conn sdk.Worker) error {
	if !w.settled {
		if err := h.adopt(ctx, w, conn); err != nil {
			return err
		}
		w.settled = true
	}
	return h.loadContent(ctx, w)
}

func (h *Host) adopt(ctx context.Context, w *worker, conn sdk.Worker) error {
	containers, volumes, err := h.onTheWay(ctx, w.name)
	if err != nil {
		return err
	}
	listed := make(map[sdk.ContainerID]sdk.ContainerInfo)
	if slices.ContainsFunc(containers, func(c store.Container) bool { return c.State == lifecycle.ContainerCreating }) {
		ours := sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}
		lctx, cancel := context.WithTimeout(ctx, lookTime) // whoever hangs here is away, and asked again
		defer cancel()
		err := conn.ListContainers(lctx, ours, func(i sdk.ContainerInfo) error {
			listed[i.ID] = i
			return nil
		})
		if err != nil {
			return err
		}
	}
	processes, err := h.unfinished(ctx, w.name)
	if err != nil {
		return err
	}
	for _, row := range containers {
		if err := h.adoptContainer(ctx, w, conn, row, listed[sdk.ContainerID(row.ID)], processes[row.ID]); err != nil {
			return fmt.Errorf("container %s: %w", row.ID, err)
		}
	}
	if len(volumes) == 0 {
		return nil // nothing is written: a full disk must not take a worker away
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		for _, row := range volumes {
			if _, err := h.moveVolume(tx, row.ID, lifecycle.Doomed, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// bounded makes one call of settling: a thing that hangs must not keep its worker away.
func bounded[ID ~string](ctx context.Context, call func(context.Context, ID) error, id string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	return call(ctx, ID(id))
}

// onTheWay lists what has to be settled on a worker: the volumes exclude those of a container that may be adopted, and what is owed already.
func (h *Host) onTheWay(ctx context.Context, worker string) (containers []store.Container, volumes []store.Volume, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		containers, err = tx.Containers(store.ContainerFilter{Worker: worker, States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady,
			lifecycle.ContainerDestroying, lifecycle.ContainerLost}})
		if err != nil {
			return err
		}
		all, err := tx.Volumes(store.VolumeFilter{Worker: worker, States: []string{lifecycle.VolumeCreating, lifecycle.VolumeOpen}})
		for _, v := range all {
			if v.State == lifecycle.VolumeCreating || v.Role == roleReplica { // an open replica was being streamed into: nobody knows what it holds
				volumes = append(volumes, v)
			}
		}
		return err
	})
	return containers, volumes, err
}

// adoptContainer takes over a container with what runs in it, or notes that it is to be destroyed, since it was never finished.
func (h *Host) adoptContainer(ctx context.Context, w *worker, conn sdk.Worker, row store.Container, listed sdk.ContainerInfo, processes []store.Process) error {
	if row.State == lifecycle.ContainerCreating {
		there := listed.State == sdk.ContainerReady && string(listed.Token) == row.Token
		err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
			if !there {
				_, err := h.doomContainer(tx, row.ID, doom{volumes: true, disown: true})
				return err
			}
			m, err := h.moveContainer(tx, row.ID, lifecycle.Made, nil)
			row = m.row
			tx.Committed(func() { h.noteContainer(row) })
			return err
		})
		if err != nil || !there {
			return err
		}
	}
	return h.settleProcesses(ctx, w, conn, row, processes)
}

// unfinished reads the processes on a worker that have not ended, by container: one query for each container is most of what opening a large
// state directory takes.
func (h *Host) unfinished(ctx context.Context, worker string) (map[string][]store.Process, error) {
	by := make(map[string][]store.Process)
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Processes(store.ProcessFilter{Worker: worker, States: []string{lifecycle.ProcessStarting, lifecycle.ProcessRunning}})
		for _, p := range rows {
			by[p.Container] = append(by[p.Container], p)
		}
		return err
	})
	return by, err
}

// settleProcesses follows what runs in a container. A start whose effect is unknown is looked for; one that had none waits for its
// owner, who alone has the environment.
func (h *Host) settleProcesses(ctx context.Context, w *worker, conn sdk.Worker, row store.Container, rows []store.Process) error {
	if len(rows) == 0 {
		return nil
	}
	var infos []sdk.ProcessInfo
	var err error
	if row.State == lifecycle.ContainerReady {
		err = bounded(ctx, func(ctx context.Context, id sdk.ContainerID) (err error) {
			infos, err = conn.ListProcesses(ctx, id)
			return err
		}, row.ID)
		if ctx.Err() != nil || errors.Is(err, sdk.Unavailable) {
			return err
		}
		// Any other error is about this container: whoever follows or starts in it finds out.
	}
	for _, p := range rows {
		handle := h.newProcess(p, row.Owner, w)
		if p.State == lifecycle.ProcessStarting {
			started := false
			for _, i := range infos {
				started = started || i.ID == handle.name && i.Token == handle.token
			}
			if !started {
				continue
			}
			if p, err = h.noteStarted(ctx, handle); err != nil { // a full disk is none: it must not take a worker away
				return err
			}
		}
		handle.deadline = h.deadlineOf(p)
		if _, err := h.follow(handle); err != nil {
			return err
		}
	}
	return nil
}
