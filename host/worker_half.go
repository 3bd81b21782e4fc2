package host

import (
	"cmp"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// half is since when a worker has only its volumes: what its plugin needs for containers is away. Zero: it has both, or neither. While it is set the
// connection stays, so that volumes are used; calls on containers fail, and are repeated as those on a worker that is away.
type half struct{ since time.Time }

// note takes a status of a worker that is open for calls.
func (h *half) note(s sdk.Status) {
	switch {
	case s.Health != sdk.Degraded || !s.ContainersAway:
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = time.Now()
	}
}

// away tells whether the containers have been away for at least so long.
func (h half) away(atLeast time.Duration) bool {
	return !h.since.IsZero() && time.Since(h.since) >= atLeast
}

// withoutContainers tells whether the worker has only its volumes.
func (w *worker) withoutContainers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.half.away(0)
}

// containersGone is an error once a worker has been without its containers for as long as the host waits for them: what runs there is then
// lost, as on a worker that is away as a whole (rule 4).
func (w *worker) containersGone() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.half.away(w.graces.Load().gone) {
		return nil
	}
	return &WorkerGoneError{Worker: w.name, Away: time.Since(w.half.since), Cause: sdk.NewUnavailable(nil, "%s", w.status.Reason)}
}

// pause has placement put nothing on a worker for now, though it may soon: what only such a worker could take waits. One without its containers is such
// a worker, and one that is stalled, both until what ran there is given up. The lock is held.
func (w *worker) pause(p *pool.Worker) {
	gone := w.graces.Load().gone
	switch {
	case p.State == pool.Stalled && w.conn == nil:
		if !w.hopeless() && time.Since(w.since) < gone {
			p.Paused = fmt.Sprintf("away (%s); it is waited for, for %s in all", p.Reason, gone)
		}
	case w.half.away(gone):
	case w.half.away(0):
		p.Paused = cmp.Or(w.status.Reason, "its containers cannot be reached")
	default:
		p.Paused = w.held
	}
}
