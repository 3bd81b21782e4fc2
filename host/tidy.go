package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
)

// Tidy does once what a host that stays open does all the time: it ends runs that are overdue, gives up artifacts that have expired, forgets records that
// have been kept for long enough, destroys what its workers have and nobody knows, and waits for what is to be destroyed, which it gives as [Host.AwaitOwed] does. It is for programs that open a host for one
// job and close it again: without it a state directory that only such programs use grows for ever. What fails is tried by whoever comes later.
func (h *Host) Tidy(ctx context.Context) map[string]Owed {
	if !h.ephemeral() {
		if err := h.keepHouse(ctx); err != nil && ctx.Err() == nil && h.ctx.Err() == nil {
			h.log.Warn("tidying failed; the next one tries again", "error", err)
		}
	}
	return h.AwaitOwed(ctx)
}

func (h *Host) keepHouse(ctx context.Context) error {
	_, errRuns := h.reapRuns(ctx, false)
	_, errArtifacts := h.reapArtifacts(ctx, false)
	h.lookAround(ctx)
	return errors.Join(errRuns, errArtifacts, h.forgetOld(ctx))
}

// aroundTime is how long a look at the workers takes at most: whoever ran a job waits for it.
const aroundTime = 2 * time.Second

// lookAround judges what is on the workers that are up, of each once in a grace. What a look finds odd, missing or unknown, is kept for the next, by
// this host or another: two of them a grace apart are as good as those of a host that stays.
func (h *Host) lookAround(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, aroundTime)
	defer cancel()
	var looks sync.WaitGroup
	for _, w := range h.sortedWorkers() {
		r := h.reconciler(w.name)
		select {
		case r.turn <- struct{}{}:
		default:
			continue // it is being looked at
		}
		looks.Go(func() {
			defer func() { <-r.turn }()
			if err := h.lookAgain(ctx, w, r); err != nil && h.ctx.Err() == nil {
				h.log.Debug("what is on a worker was not looked at", "worker", w.name, "error", err)
			}
		})
	}
	looks.Wait()
}

// lookAgain looks at one worker if that is due. The caller has its turn.
func (h *Host) lookAgain(ctx context.Context, w *worker, r *reconciler) error {
	if report := w.report(); !report.Up || w.withoutContainers() {
		return nil
	}
	now, grace := h.clock.wall(), h.cfg().Timing.MissingGrace
	var last store.Look
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		last, err = tx.Look(w.name)
		return ignoreNotFound(err)
	})
	if err != nil {
		return err
	}
	if since := now.Sub(last.At); since >= 0 && since < grace {
		return nil
	}
	var seen []sight
	if len(last.Seen) > 0 {
		if err := json.Unmarshal(last.Seen, &seen); err != nil {
			return fmt.Errorf("record of the last look: %w", err)
		}
	}
	r.seen = make(reap.Sights)
	for _, s := range seen {
		r.seen[s.Thing] = reap.Sight{Odd: s.Odd, Since: h.clock.steady() - grace}
	}
	verdicts, failed := h.reapWorker(ctx, w, r, false)
	h.logReaped(verdicts)
	if failed == nil { // else what was odd before is looked for again, but not by each command that comes
		seen = seen[:0]
		for t, s := range r.seen {
			seen = append(seen, sight{t, s.Odd})
		}
	}
	text, err := json.Marshal(seen)
	if err == nil {
		err = h.store.Release(context.WithoutCancel(ctx), store.KillSafe, func(tx *store.Tx) error {
			return tx.PutLook(store.Look{ID: w.name, At: now, Seen: text})
		})
	}
	return errors.Join(failed, err)
}

// sight is what was odd about a thing.
type sight struct {
	reap.Thing
	Odd string
}

// forgetOld forgets what has been kept for long enough, and gives its space back.
func (h *Host) forgetOld(ctx context.Context) error {
	if err := h.forget(ctx, h.clock.wall().Add(-h.cfg().Reaping.OrDefault().Records)); err != nil {
		return fmt.Errorf("forget what is over: %w", err)
	}
	if err := h.store.Shrink(ctx); err != nil {
		return fmt.Errorf("give the space of what is forgotten back: %w", err)
	}
	return nil
}
