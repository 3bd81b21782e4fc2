package host

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/host/store"
)

// recordRetention is how long the records and the output of a run are kept after its end.
const recordRetention = 7 * 24 * time.Hour

// forget removes the records and the output of runs that ended before a time.
func (h *Host) forget(ctx context.Context, before time.Time) error {
	var outputs []string
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		outputs = outputs[:0]
		runs, err := tx.Runs(store.RunFilter{States: []string{runEnded}, EndedBefore: before})
		if err != nil {
			return err
		}
		for _, run := range runs {
			ended, err := forgetRun(tx, run.ID)
			if err != nil {
				return err
			}
			outputs = append(outputs, ended...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range outputs {
		if err := h.spool.Remove(id); err != nil {
			return err
		}
	}
	return nil
}

// forgetRun removes a run's rows, and names the outputs of its processes. What is still to be destroyed on a worker keeps its
// row, and the run with it.
func forgetRun(tx *store.Tx, id string) (outputs []string, err error) {
	containers, err := tx.Containers(store.ContainerFilter{OwnerPrefix: RunOwner(id, "")})
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		if c.State != containerDestroyed && c.State != containerLost {
			return nil, nil
		}
	}
	for _, c := range containers {
		processes, err := tx.Processes(store.ProcessFilter{Container: c.ID})
		if err != nil {
			return nil, err
		}
		for _, p := range processes {
			outputs = append(outputs, p.ID)
			if err := tx.DeleteProcess(p.ID); err != nil {
				return nil, err
			}
		}
		if err := tx.DeleteContainer(c.ID); err != nil {
			return nil, err
		}
	}
	return outputs, tx.DeleteRun(id)
}
