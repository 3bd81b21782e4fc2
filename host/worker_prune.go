package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// DefaultPrune is how long an ephemeral worker may be away before it is forgotten.
const DefaultPrune = 5 * time.Minute

// pruneIfGone forgets an ephemeral worker, or a node that its plugin took back, once it has been away for long: what ran there is lost,
// and its records go. Should it come back, it is as a new one, and what is still on it has no record and is destroyed.
func (h *Host) pruneIfGone(w *worker) {
	after := cmp.Or(h.cfg().Timing.Prune, DefaultPrune)
	if !w.goneFor(after) || !w.ordering.TryLock() {
		return // next time
	}
	defer w.ordering.Unlock()
	if w.drain != nil { // there is nothing left to be moved, nor anybody whom it could obey
		w.drain.stop()
		w.drain = nil
	}
	reason := fmt.Sprintf("worker %s was away for %s and is forgotten", w.name, after)
	err := h.store.Release(h.ctx, store.KillSafe, func(tx *store.Tx) error { return h.loseWorker(tx, w.name, reason) })
	if err != nil {
		if h.ctx.Err() == nil {
			h.log.Warn("a worker that is gone cannot be forgotten yet", "worker", w.name, "error", errors.Join(err, h.startDrain(w)))
		}
		return
	}
	h.log.Info("forgot a worker", "worker", w.name, "away", after)
	w.forget()
	h.mu.Lock()
	delete(h.ordered, w.name)
	h.mu.Unlock()
	h.tellPlacement(w)
	h.drop(w)
}

// drop takes a worker out of the host if it is forgotten and its plugin does not tell it any more, so that nodes that come and go leave nothing. One that its plugin still tells has a monitor,
// which may find it back; that of a block is always known.
func (h *Host) drop(w *worker) {
	block := slices.ContainsFunc(h.cfg().Workers, func(b config.Worker) bool { return b.Name == w.name }) // not only the block of a node
	h.mu.Lock()
	dropped := !block && h.workers[w.name] == w && w.leftFor()
	if dropped {
		delete(h.workers, w.name)
		delete(h.ordered, w.name)
		maps.DeleteFunc(h.hung, func(p pair, _ time.Time) bool { return p.from == w.name || p.to == w.name })
		h.entries[w.plugin]--
	}
	h.mu.Unlock()
	if dropped {
		h.dropReconciler(w.name)
	}
}

// leftFor tells whether its plugin has taken the worker back and it is forgotten.
func (w *worker) leftFor() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.removed && w.pruned
}

func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// goneFor tells whether the worker may be forgotten: one that comes and goes, and has been away for so long.
func (w *worker) goneFor(after time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.comesAndGoes() && !w.pruned && w.conn == nil && (!w.elsewhere || w.givenUp && w.removed) && time.Since(w.since) >= after
}

// passing is comesAndGoes.
func (w *worker) passing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.comesAndGoes()
}

// comesAndGoes tells whether the worker is forgotten once it has been away for long. The lock is held.
func (w *worker) comesAndGoes() bool { return w.block.ephemeral || w.info.Ephemeral || w.removed }

func (w *worker) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pruned, w.orders, w.waits = true, orders{}, nil
}

// seen notes that the worker is there, whatever it was before.
func (w *worker) seen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pruned = false
}

// forgotten tells whether there is nothing to say of the worker.
func (w *worker) forgotten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pruned || w.none && w.doubt == ""
}

// workerOf is the worker of a container. That of one that is over may be unknown by now; what is recorded can still be asked for.
func (h *Host) workerOf(row store.Container) (*worker, error) {
	w, err := h.worker(row.Worker)
	if err != nil && (row.State == lifecycle.ContainerDestroyed || row.State == lifecycle.ContainerLost) {
		w = newWorker(row.Worker, "", 0, h.ctx.Done())
		w.setDead(sdk.NewUnavailable(nil, "worker %s is not known any more", row.Worker))
		return w, nil
	}
	return w, err
}
