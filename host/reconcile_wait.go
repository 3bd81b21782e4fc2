package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/sdk"
)

// awaitGone waits until things of a worker are destroyed that were made owed just now. It ends with the errors of those that a try cannot destroy for another reason than that
// the worker is away, and with a *WorkerGoneError once it has been away, or tries have found it so, for longer than within. What is owed still is
// tried on.
func (h *Host) awaitGone(ctx context.Context, name string, within time.Duration, things ...reap.Thing) error {
	return h.await(ctx, name, func(*worker) time.Duration { return within }, false, things)
}

// awaitGoneThough is awaitGone for as long as the host waits for the worker, and does not end at a try that has failed for another reason before that either: something depends on it.
// It ends where the worker has done it and the full disk has no room to note that: this is tried on as well, but only who makes room ends it, and has to be told.
func (h *Host) awaitGoneThough(ctx context.Context, name string, things ...reap.Thing) error {
	return h.await(ctx, name, (*worker).goneIn, true, things)
}

func (h *Host) await(ctx context.Context, name string, patience func(*worker) time.Duration, though bool, things []reap.Thing) (err error) {
	if len(things) == 0 {
		return nil
	}
	w, err := h.worker(name)
	if errors.Is(err, sdk.Unavailable) {
		return oncePresent(name, things, err)
	}
	if err != nil {
		return err
	}
	r := h.reconciler(name)
	heard := listen(ctx, w, "destroy "+describe(things))
	defer func() { heard.end(!silent(err)) }()
	var failing time.Time
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("destroy %s on %s: %w", describe(things), name, err)
		}
		within := patience(w)
		left, changed := r.left(things) // all of them each time: what has failed may have gone since, and else is told at the end
		waiting := left.owed
		if though && (failing.IsZero() || time.Since(failing) < within) {
			left.failed = slices.DeleteFunc(left.failed, func(f failure) bool {
				if silent(f.err) || lacksRoom(f.err) { // that has been waited for; who waits for room tells so, and asks again
					return false
				}
				waiting, left.away = append(waiting, f.thing), f.err
				return true
			})
		}
		if len(waiting) == 0 {
			return errorsOf(left.failed)
		}
		gone, turned, dead := w.away()
		if gone == nil && left.away != nil {
			if failing.IsZero() {
				failing = time.Now()
			}
			gone = &WorkerGoneError{Worker: name, Away: time.Since(failing), Cause: left.away}
		}
		if dead == nil && gone != nil && gone.Away >= within {
			return errors.Join(errorsOf(left.failed), oncePresent(name, waiting, gone))
		}
		if dead != nil {
			return errors.Join(errorsOf(left.failed), fmt.Errorf("destroy %s on %s: %w", describe(waiting), name, dead))
		}
		heard.sign()
		if err := pauseUntil(ctx, h.ctx, within, gone, changed, turned); err != nil {
			return err
		}
	}
}

// oncePresent says that things are noted as to be destroyed, and will be once their worker is there: who asked for it need not ask again.
func oncePresent(worker string, things []reap.Thing, why error) error {
	return fmt.Errorf("%s on %s will be destroyed as soon as that is back: %w", describe(things), worker, why)
}

// pauseUntil waits until one of two things happens, or the time within has passed since gone.
func pauseUntil(ctx, closing context.Context, within time.Duration, gone *WorkerGoneError, changed, turned <-chan struct{}) error {
	var late <-chan time.Time
	if gone != nil {
		timer := time.NewTimer(within - gone.Away)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-changed:
	case <-turned:
	case <-late:
	case <-ctx.Done():
	case <-closing.Done():
		return ErrClosed
	}
	return nil
}

// leftOver is what has become of things that somebody waits for.
type leftOver struct {
	owed   []reap.Thing // they may go still
	failed []failure    // of those that could not be destroyed
	away   error        // the last try of one of those that are owed has found the worker away
}

// failure is why a thing could not be destroyed.
type failure struct {
	thing reap.Thing
	err   error
}

func errorsOf(failed []failure) error {
	errs := make([]error, len(failed))
	for i, f := range failed {
		errs[i] = f.err
	}
	return errors.Join(errs...)
}

// left tells what has become of things since somebody asked for them last, and gives what tells of the next change.
func (r *reconciler) left(things []reap.Thing) (left leftOver, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range things {
		by, d := r.obstacle(t)
		switch {
		case d == nil:
		case d.failed <= r.debts[t].asked:
			left.owed = append(left.owed, t)
		case errors.Is(d.err, sdk.Unavailable) && !silent(d.err):
			left.owed, left.away = append(left.owed, t), d.err
		default:
			left.failed = append(left.failed, failure{t, fmt.Errorf("destroy %s %s on %s: %w", by.Kind, by.ID, r.worker, d.err)})
		}
	}
	return left, r.changed
}

// obstacle is the debt that a thing waits for: its own, or that of what has to go before it and has failed. Nil: it is not owed. The lock is held.
func (r *reconciler) obstacle(t reap.Thing) (reap.Thing, *debt) {
	d := r.debts[t]
	if d != nil && d.state == debtBlocked {
		for _, by := range d.after {
			if by, other := r.obstacle(by); other != nil && other.err != nil {
				return by, other
			}
		}
	}
	return t, d
}

// describe names a few things: containers first, for they go before what they mount, and always in the same words.
func describe(things []reap.Thing) string {
	things = slices.Clone(things)
	slices.SortFunc(things, func(a, b reap.Thing) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	names := make([]string, len(things))
	for i, t := range things {
		names[i] = string(t.Kind) + " " + t.ID
	}
	return list(names)
}
