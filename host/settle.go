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

// loadLeases tells placement what the state directory says of containers, and names the workers that have any.
func (h *Host) loadLeases(ctx context.Context) (known []string, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		containers, err := tx.Containers(store.ContainerFilter{States: []string{lifecycle.ContainerCreating, lifecycle.ContainerReady}})
		if err != nil {
			return err
		}
		for _, c := range containers {
			known = append(known, c.Worker)
			var r containerRecord
			if err := json.Unmarshal(c.Spec, &r); err != nil {
				return fmt.Errorf("record of container %s: %w", c.ID, err)
			}
			if r.Kept {
				continue
			}
			if err := h.index.Acquire(pool.Lease{Owner: c.Owner, Worker: c.Worker, Team: c.Team, Kind: r.Kind,
				Volumes: r.Claims.Volumes, Resources: r.Claims.Resources}); err != nil {
				return err
			}
		}
		return nil
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
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
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
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
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

// settle ends what is on the way on a worker that nobody can use yet. What an earlier host began is adopted if it took
// effect, else undone; what ran is followed on. That happens once in a host's life, for afterwards what is on the way
// belongs to a caller who is waiting. What was to be destroyed is destroyed now, each time; what cannot be is left, so that the next look
// tries again. Unless it must all be tried before the worker is used, one thing that is Unavailable holds up no other.
func (h *Host) settle(ctx context.Context, w *worker, conn sdk.Worker, must bool) error {
	first := !w.settled
	containers, volumes, err := h.onTheWay(ctx, w.name, first)
	if err != nil {
		return err
	}
	listed := make(map[sdk.ContainerID]sdk.ContainerInfo)
	if first && len(containers) > 0 {
		ours := sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}
		err := conn.ListContainers(ctx, ours, func(i sdk.ContainerInfo) error {
			listed[i.ID] = i
			return nil
		})
		if err != nil {
			return err
		}
	}
	processes, err := h.unfinished(ctx, w.name, first)
	if err != nil {
		return err
	}
	stuck := make(map[string]bool) // containers, and volumes that one of them or a clone still needs
	for _, row := range containers {
		err := h.settleContainer(ctx, w, conn, row, listed[sdk.ContainerID(row.ID)], processes)
		if err == nil {
			continue
		}
		if err = h.leave(ctx, w, must, err); err == nil && row.State == lifecycle.ContainerCreating { // an owner may ask again
			err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
				_, err := h.doomContainer(tx, row.ID, doom{disown: true})
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("container %s: %w", row.ID, err)
		}
		stuck[row.ID] = true
		mounted, err := mountedBy(row)
		if err != nil { // a bad record keeps no worker away
			h.log.Error("what a container mounts is not known", "worker", w.name, "error", err)
		}
		for _, id := range mounted {
			stuck[id] = true
		}
	}
	slices.Reverse(volumes) // clones are younger than what they are clones of
	for _, row := range volumes {
		if row.State == lifecycle.VolumeDestroying && (stuck[row.ID] || row.Container != "" && stuck[row.Container]) {
			stuck[row.Parent] = true
			continue
		}
		err := h.undoVolume(ctx, conn, row)
		if err == nil {
			continue
		}
		if err = h.leave(ctx, w, must, err); err == nil {
			err = h.endVolume(ctx, row.ID, lifecycle.Doomed)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", row.ID, err)
		}
		stuck[row.Parent] = true
	}
	w.settled = true
	return h.loadContent(ctx, w)
}

// owes is deferred by who destroys something on a worker, from before its row says so: unless that has worked to its end, it is the
// monitor's to do, whoever asks for it again or not.
func (h *Host) owes(worker string, err *error) {
	if *err == nil {
		return
	}
	if w, err := h.worker(worker); err == nil { // whenever another comes, what it owes is settled first
		w.left.Store(true)
	}
}

// leave decides whether what failed for one thing is left for later. It is not if the worker, of which nothing else is known yet, is away:
// then nothing is settled.
func (h *Host) leave(ctx context.Context, w *worker, must bool, err error) error {
	if ctx.Err() != nil || must && errors.Is(err, sdk.Unavailable) {
		return err
	}
	h.log.Error("something stays on a worker; trying again", "worker", w.name, "error", err)
	w.left.Store(true)
	return nil
}

// bounded makes one call of settling: a thing that hangs must not keep its worker away.
func bounded[ID ~string](ctx context.Context, call func(context.Context, ID) error, id string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	return call(ctx, ID(id))
}

// onTheWay lists what has to be settled on a worker: the volumes exclude those of a container that may be adopted.
func (h *Host) onTheWay(ctx context.Context, worker string, first bool) (containers []store.Container, volumes []store.Volume, err error) {
	states, volumeStates := []string{lifecycle.ContainerDestroying}, []string{lifecycle.VolumeDestroying}
	if first {
		states = append(states, lifecycle.ContainerCreating, lifecycle.ContainerReady, lifecycle.ContainerLost)
		volumeStates = append(volumeStates, lifecycle.VolumeCreating, lifecycle.VolumeOpen)
	}
	err = h.store.View(ctx, func(tx *store.Tx) error {
		if containers, err = tx.Containers(store.ContainerFilter{Worker: worker, States: states}); err != nil {
			return err
		}
		all, err := tx.Volumes(store.VolumeFilter{Worker: worker, States: volumeStates})
		for _, v := range all {
			if v.State != lifecycle.VolumeOpen || v.Role == roleReplica { // an open replica was being streamed into: nobody knows what it holds
				volumes = append(volumes, v)
			}
		}
		return err
	})
	return containers, volumes, err
}

func (h *Host) settleContainer(ctx context.Context, w *worker, conn sdk.Worker, row store.Container, listed sdk.ContainerInfo, processes processesOf) error {
	switch row.State {
	case lifecycle.ContainerCreating:
		if listed.State == sdk.ContainerReady && string(listed.Token) == row.Token {
			err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
				m, err := h.moveContainer(tx, row.ID, lifecycle.Made, nil)
				row = m.row
				return err
			})
			if err != nil {
				return err
			}
			return h.settleProcesses(ctx, w, conn, row, processes)
		}
		return h.undoContainer(ctx, conn, row)
	case lifecycle.ContainerDestroying:
		if row.Owner == "" {
			return h.undoContainer(ctx, conn, row)
		}
		if err := bounded(ctx, conn.DestroyContainer, row.ID); err != nil {
			return err
		}
		if err := h.endContainer(ctx, row.ID); err != nil {
			return err
		}
		row.State = lifecycle.ContainerDestroyed
		return h.settleProcesses(ctx, w, conn, row, processes)
	}
	return h.settleProcesses(ctx, w, conn, row, processes)
}

// processesOf lists the processes of a container that have not ended.
type processesOf func(container string) ([]store.Process, error)

// unfinished reads those of all containers at once where nobody can change them meanwhile: one query for each is most of what opening a large
// state directory takes.
func (h *Host) unfinished(ctx context.Context, worker string, first bool) (processesOf, error) {
	read := func(f store.ProcessFilter) (rows []store.Process, err error) {
		f.States = []string{lifecycle.ProcessStarting, lifecycle.ProcessRunning}
		err = h.store.View(ctx, func(tx *store.Tx) error {
			rows, err = tx.Processes(f)
			return err
		})
		return rows, err
	}
	if !first {
		return func(container string) ([]store.Process, error) {
			return read(store.ProcessFilter{Container: container})
		}, nil
	}
	rows, err := read(store.ProcessFilter{Worker: worker})
	if err != nil {
		return nil, err
	}
	by := make(map[string][]store.Process, len(rows))
	for _, p := range rows {
		by[p.Container] = append(by[p.Container], p)
	}
	return func(container string) ([]store.Process, error) { return by[container], nil }, nil
}

// settleProcesses follows what runs in a container. A start whose effect is unknown is looked for; one that had none waits for its
// owner, who alone has the environment.
func (h *Host) settleProcesses(ctx context.Context, w *worker, conn sdk.Worker, row store.Container, processes processesOf) error {
	rows, err := processes(row.ID)
	if err != nil || len(rows) == 0 {
		return err
	}
	var infos []sdk.ProcessInfo
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
			if _, err := h.markRunning(ctx, p.ID); err != nil {
				return err
			}
		}
		if _, err := h.follow(handle); err != nil {
			return err
		}
	}
	return nil
}

// undoContainer removes what came of a container in which no process was started.
func (h *Host) undoContainer(ctx context.Context, conn sdk.Worker, row store.Container) error {
	if err := bounded(ctx, conn.DestroyContainer, row.ID); err != nil {
		return err
	}
	volumes, err := h.volumes(ctx, store.VolumeFilter{Container: row.ID})
	if err != nil {
		return err
	}
	for _, v := range volumes {
		if err := h.undoVolume(ctx, conn, v); err != nil {
			return err
		}
	}
	return h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveContainer(tx, row.ID, lifecycle.Discarded, nil)
		return err
	})
}

func (h *Host) undoVolume(ctx context.Context, conn sdk.Worker, row store.Volume) error {
	if err := bounded(ctx, conn.DestroyVolume, row.ID); err != nil {
		return err
	}
	return h.endVolume(ctx, row.ID, lifecycle.Destroyed)
}
