package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// A stranger is a worker that the state directory knows and the configuration has no more. Nothing reaches what is on it, and nothing of it is decided, for the
// configuration may be the wrong one: it stays recorded until the worker is back, or its operator gives it up.

// findStrangers tells which of the workers that there were are strangers. Those of which nothing is left are forgotten, but for orders that last.
func (h *Host) findStrangers(ctx context.Context, seen []string) (map[string]time.Time, error) {
	out := make(map[string]time.Time)
	for _, name := range seen {
		if _, known := out[name]; known || h.configured(name) {
			continue
		}
		has, err := h.forgetUnused(ctx, name)
		if err != nil {
			return nil, err
		}
		if has {
			out[name] = h.clock.wall()
		}
	}
	return out, nil
}

// configured tells whether the configuration has a worker, or the block whose node it is.
func (h *Host) configured(name string) bool {
	return slices.ContainsFunc(h.cfg().Workers, func(b config.Worker) bool { return b.Name == name || b.Name == name[:max(lastSlash(name), 0)] })
}

func (h *Host) stranger(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, is := h.strangers[name]
	return is
}

func (h *Host) strangerReports() []WorkerReport {
	h.mu.Lock()
	all := maps.Clone(h.strangers)
	h.mu.Unlock()
	out := make([]WorkerReport, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, WorkerReport{Name: name, State: pool.Stalled, Since: all[name], Owed: h.reconciler(name).owed(),
			Why: "the configuration has no worker of this name, and what is on it stays: " + strangerAdvice(name)})
	}
	return out
}

// strangerAdvice says what an operator can do about a stranger.
func strangerAdvice(name string) string {
	return fmt.Sprintf("put it back, or give it up with \"slipway workers retire %s\"", name)
}

// orderStranger obeys as far as that is possible without the worker: what it was told can be taken back, so that it takes work once it is in the configuration again, and
// it can be given up.
func (h *Host) orderStranger(ctx context.Context, name string, o orders) error {
	switch o.state {
	case pool.Retiring:
		return h.forgetStranger(ctx, name)
	case "":
		if err := h.putOrders(ctx, name, o); err != nil {
			return fmt.Errorf("worker %s: %w", name, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.ordered, name)
		return nil
	}
	return &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindWorker, ID: name,
		Message: fmt.Sprintf("the configuration has no worker %q, and it takes no new work; what is on it stays recorded: %s", name, strangerAdvice(name))}
}

// forgetUnused deletes the record of a worker, unless something is on it. Of lasting orders there is a record still.
func (h *Host) forgetUnused(ctx context.Context, name string) (has bool, err error) {
	err = h.store.Release(ctx, store.PowerSafe, func(tx *store.Tx) error {
		containers, err := tx.Containers(presentOn(name))
		if err != nil {
			return err
		}
		volumes, err := tx.Volumes(store.VolumeFilter{Worker: name})
		if has = len(containers)+len(volumes) > 0; has || err != nil {
			return err
		}
		row, err := tx.Worker(name)
		if ignoreNotFound(err) != nil {
			return err
		}
		if err == nil && ordersOf(row).lasting() {
			err = tx.PutWorker(store.Worker{ID: name, Orders: row.Orders, Reason: row.Reason, OrderedAt: row.OrderedAt})
		} else {
			err = ignoreNotFound(tx.DeleteWorker(name))
		}
		return errors.Join(err, tx.DeleteLook(name))
	})
	return has, err
}

// forgetStranger gives up what is on a stranger: what ran there is lost, and its records go.
func (h *Host) forgetStranger(ctx context.Context, name string) error {
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error { return h.loseWorker(tx, name, fmt.Sprintf("worker %s was given up", name)) })
	if err != nil {
		return fmt.Errorf("give up worker %s: %w", name, err)
	}
	h.log.Info("gave up a worker that the configuration has no more", "worker", name)
	h.mu.Lock()
	delete(h.strangers, name)
	delete(h.ordered, name)
	h.mu.Unlock()
	h.dropReconciler(name)
	return nil
}

// loseWorker notes that a worker is gone for good, with all that was on it.
func (h *Host) loseWorker(tx *store.Tx, name, reason string) error {
	if err := h.loseContainers(tx, name, reason); err != nil {
		return err
	}
	if err := h.loseVolumes(tx, name); err != nil {
		return err
	}
	return errors.Join(ignoreNotFound(tx.DeleteWorker(name)), tx.DeleteLook(name))
}
