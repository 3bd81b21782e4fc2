package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// How often a worker's status is asked for.
const (
	statusEvery   = 5 * time.Second
	statusTimeout = 10 * time.Second
	// While a worker is away it is asked sooner, then ever later up to statusEvery.
	probeFirst = 50 * time.Millisecond
)

// monitor keeps a worker's state for one session. looked is called after the first look.
func (h *Host) monitor(ctx context.Context, w *worker, conn sdk.Worker, looked func()) {
	defer func() {
		if looked != nil {
			looked()
		}
		w.setAway(conn, errors.New("its plugin is away"))
		if err := conn.Close(); err != nil {
			h.log.Warn("closing a worker failed", "worker", w.name, "error", err)
		}
	}()
	settled := false // in this session
	for wait := probeFirst; ; {
		err := h.look(ctx, w, conn, &settled)
		if err != nil {
			w.unprovenNow().tell(err)
			w.setAway(conn, err)
			if !errors.As(err, new(*elsewhereError)) { // which is known of it
				h.doubt(ctx, w)
			}
			h.tellPlacement(w)
		}
		if looked != nil {
			looked()
			looked = nil
		}
		if err == nil {
			wait = statusEvery
		}
		select {
		case <-time.After(wait):
		case <-w.probe:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = min(2*wait, statusEvery)
		} else {
			wait = probeFirst
		}
	}
}

// watchStalled takes workers out of placement that have been away for so long that no new work should wait for them, until the
// host closes. Being back puts them in again.
func (h *Host) watchStalled() {
	for {
		changed := h.settings.changes()
		tick := time.NewTimer(max(h.cfg().Timing.Stalled/10, 10*time.Millisecond))
		select {
		case <-tick.C:
		case <-changed:
		case <-h.ctx.Done():
		}
		tick.Stop()
		if h.ctx.Err() != nil {
			return
		}
		for _, w := range h.sortedWorkers() {
			h.tellPlacement(w)
			w.cutIfGone()
			h.pruneIfGone(w)
		}
	}
}

// tellPlacement tells placement how a worker is now.
func (h *Host) tellPlacement(w *worker) {
	w.placing.Lock()
	defer w.placing.Unlock()
	if now, err := h.worker(w.name); err == nil && now != w { // another has its name
		return
	}
	p, known, removed := w.placement()
	switch {
	case removed:
		h.index.Remove(w.name)
	case known:
		h.index.Upsert(p)
	}
	h.queue.Nudge() // what it keeps may be spare elsewhere, or not any more
}

// look asks for the status, and opens the worker for calls if it is well. What the last session left open is settled before
// that, once.
func (h *Host) look(ctx context.Context, w *worker, conn sdk.Worker, settled *bool) error {
	sctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s, err := conn.Status(sctx)
	if err != nil && ctx.Err() == nil && sctx.Err() != nil {
		return sdk.NewUnavailable(err, "it has not told its status for %s; look whether what is behind it hangs", statusTimeout)
	}
	if err != nil {
		return err
	}
	if s.Health == sdk.Away || s.Health == sdk.HealthUnknown {
		return sdk.NewUnavailable(nil, "%s", cmp.Or(s.Reason, "its status is "+s.Health.String()))
	}
	if h.ephemeral() && !s.Has(sdk.FeatureVolatile) {
		w.setStatus(s)
		return unusedError{sdk.NewInvalid(sdk.ReasonConfig, "what is made on worker %s outlives this command, and nothing would remember it: give --state DIR", w.name)}
	}
	if err := h.identify(ctx, w, conn, s); err != nil {
		return err
	}
	keepSettings, err := h.recall(ctx, w, conn, s)
	if err != nil {
		return err
	}
	changed, err := h.checkIncarnation(ctx, w, s)
	if err != nil {
		return err
	}
	keepSettings(ctx) // not before: they say of which place the incarnations are
	if changed {
		*settled = false // until that has worked: nobody notices the change again
	}
	if !*settled {
		if err := h.settle(ctx, w, conn); err != nil {
			return fmt.Errorf("settling what the last session left: %w", err)
		}
		*settled = true
	}
	if w.setUp(conn, s) {
		h.reconciler(w.name).back()
	}
	w.seen()
	h.tellPlacement(w)
	return nil
}

func (h *Host) sortedWorkers() []*worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*worker, 0, len(h.workers))
	for _, w := range h.workers {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *worker) int { return cmp.Compare(a.name, b.name) })
	return out
}

// worker gives a worker that the configuration has. One that it has no more, and on which something is still, is sdk.Unavailable: put back, it is there again.
func (h *Host) worker(name string) (*worker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.workers[name]; w != nil {
		return w, nil
	}
	if _, is := h.strangers[name]; is {
		return nil, sdk.NewUnavailable(nil, "worker %s is not in the configuration: %s", name, strangerAdvice(name))
	}
	return nil, sdk.NewNotFound(sdk.KindWorker, name)
}
