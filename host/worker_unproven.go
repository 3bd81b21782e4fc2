package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// unproven is set on a worker whose plugin was given other settings, until it is seen to be the worker that it was: the same name may lead to another place now. What the
// records say is on it would be taken for lost there, though it goes on at the old place, where nobody would ever clean it up.
type unproven struct {
	holds string // what was on the worker before, in words for people; it is empty if there was nothing
	wasUp bool   // whether the worker answered before its settings were changed

	once sync.Once
	seen chan struct{} // closed once the worker was looked at with its new settings
	err  error         // what the look found; it is not changed any more once seen is closed

	accepted chan struct{} // closed once the reload goes on with the new settings; nothing is done on the worker before that
}

// tell notes what the first look at the worker found.
func (m *unproven) tell(err error) {
	if m == nil {
		return
	}
	m.once.Do(func() {
		m.err = err
		close(m.seen)
	})
}

// elsewhereError says that a worker's name leads to another place than before its settings were changed.
type elsewhereError struct{ worker, holds string }

func (e *elsewhereError) Error() string {
	return fmt.Sprintf("worker %s is another place with these settings, and %s, which would stay at the old one and be lost to this host", e.worker, e.holds)
}

// otherPlace tells an operator what to do who wants workers to be at another place.
func otherPlace(workers ...string) string {
	if len(workers) > 1 {
		return "give each new place a worker with a name of its own; or empty these before (\"slipway workers cordon\" and wait until what runs there has ended, then \"slipway workers retire\"), " +
			"reload, and put them back to work with \"slipway workers uncordon\""
	}
	return fmt.Sprintf("give the new place a worker with a name of its own; or empty this one before (\"slipway workers cordon %[1]s\" and wait until what runs there has ended, then \"slipway workers retire %[1]s\"), "+
		"reload, and put it back to work with \"slipway workers uncordon %[1]s\"", workers[0])
}

// setUnproven notes that the worker's name may lead to another place now. With nil it notes that the worker is known to be the same.
func (w *worker) setUnproven(m *unproven) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unproven = m
}

func (w *worker) unprovenNow() *unproven {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unproven
}

// identify wants a worker whose settings have changed to be the place that it was, or one on which the records have nothing. It returns once the reload that changed them
// goes on with them. One that is another place, while something is recorded, is not used: its operator says what becomes of that.
func (h *Host) identify(ctx context.Context, w *worker, conn sdk.Worker, s sdk.Status) error {
	m := w.unprovenNow()
	if m == nil {
		return nil
	}
	err := h.samePlace(ctx, w, conn, s)
	m.tell(err)
	if elsewhere := (*elsewhereError)(nil); errors.As(err, &elsewhere) {
		select {
		case <-m.accepted: // it was away while the settings were tried
			w.setStatus(s)
			w.setElsewhere(true)
			if p := h.plugin(w.plugin); p != nil {
				changed, _, failed := p.changedSince(ctx, w.name)
				if failed != nil {
					return failed
				}
				if changed != "" {
					return changedError(err, w.name, changed)
				}
			}
		default:
		}
		return fmt.Errorf("%w: %s", err, otherPlace(w.name))
	}
	if err != nil {
		return err
	}
	select {
	case <-m.accepted:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.setUnproven(nil)
	return nil
}

// samePlace is an *elsewhereError if what is recorded on the worker is not where its name leads.
func (h *Host) samePlace(ctx context.Context, w *worker, conn sdk.Worker, s sdk.Status) error {
	holds, err := h.usedThere(ctx, w.name, everyVolume)
	if err != nil || holds == "" {
		return err
	}
	var known store.Worker
	things := make(map[string]bool) // things that are there for certain if this is the same place
	err = h.store.View(ctx, func(tx *store.Tx) error {
		if known, err = tx.Worker(w.name); ignoreNotFound(err) != nil {
			return err
		}
		containers, err := tx.Containers(store.ContainerFilter{Worker: w.name, States: []string{lifecycle.ContainerReady}})
		if err != nil {
			return err
		}
		volumes, err := tx.Volumes(store.VolumeFilter{Worker: w.name, States: []string{lifecycle.VolumeOpen, lifecycle.VolumeSealed}})
		for _, c := range containers {
			things[c.ID] = true
		}
		for _, v := range volumes {
			things[v.ID] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	elsewhere := &elsewhereError{w.name, holds}
	if replaced(known.VolumeIncarnation, s.VolumeIncarnation) {
		return elsewhere
	}
	if replaced(known.ContainerIncarnation, s.ContainerIncarnation) {
		if known.VolumeIncarnation != "" && known.VolumeIncarnation == s.VolumeIncarnation {
			return nil // this is the same place, which has lost its containers meanwhile
		}
		return elsewhere
	}
	return h.listsAny(ctx, conn, things, elsewhere)
}

// errFound ends a listing once it has told enough.
var errFound = errors.New("found")

// listsAny returns an *elsewhereError if the records have such things and the worker lists none of them: a runtime need not be able to tell one of its stores from another.
func (h *Host) listsAny(ctx context.Context, conn sdk.Worker, things map[string]bool, none error) error {
	if len(things) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	ours := sdk.Filter{Labels: map[string]string{sdk.LabelInstallation: h.Installation()}}
	found := func(id string) error {
		if things[id] {
			return errFound
		}
		return nil
	}
	err := conn.ListVolumes(ctx, ours, func(i sdk.VolumeInfo) error { return found(string(i.ID)) })
	if err == nil {
		err = conn.ListContainers(ctx, ours, func(i sdk.ContainerInfo) error { return found(string(i.ID)) })
	}
	switch {
	case errors.Is(err, errFound):
		return nil
	case err != nil:
		return err
	}
	return none
}
