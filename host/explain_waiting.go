package host

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

// Waiting lists who waits for a place on a worker, the first to be served first, and then who waits for a turn, of those whose owners begin with a prefix. What each
// of the workers lacks for them [Host.ExplainOwner] tells.
func (h *Host) Waiting(ctx context.Context, ownerPrefix string) ([]*Explanation, error) {
	turns := h.turnWaits() // first: a step whose turn comes meanwhile is found where it is then
	var out []*Explanation
	placing := make(map[string]bool)
	for i, w := range h.queue.Waiting() {
		if placing[w.Owner] || !strings.HasPrefix(w.Owner, ownerPrefix) {
			continue
		}
		placing[w.Owner] = true
		e, err := h.explainWaiter(ctx, w, i+1)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	for _, w := range turns {
		if !placing[w.owner] && strings.HasPrefix(w.owner, ownerPrefix) {
			out = append(out, w.explain())
		}
	}
	return out, nil
}

// explainWaiter tells of one who waits for a place, but for what workers lack for it.
func (h *Host) explainWaiter(ctx context.Context, w pool.Waiter, position int) (e *Explanation, err error) {
	e = &Explanation{Owner: w.Owner, State: PlacementWaiting, Waited: time.Since(w.Since), Position: position, Priority: w.Spec.Priority,
		Reserved: w.Reserved, ReservedUntil: w.Until}
	if w.Reserved != "" {
		e.InTheWay, err = h.inTheWay(ctx, w)
	}
	return e, err
}

// explainWait is [pool.Queue.Explain] that also says what holds the room of full workers, as a team may hear of it; empty: as the operator may. Why is its error.
func (h *Host) explainWait(ctx context.Context, w pool.Waiter, team string) (verdicts []pool.Verdict, why, err error) {
	w.All = team == ""
	verdicts, why = h.queue.Explain(w)
	if err := h.sayHolders(ctx, verdicts, team); err != nil {
		return nil, nil, err
	}
	if full, ok := errors.AsType[*pool.FullError](why); ok {
		full.Reasons = verdicts
	}
	return verdicts, why, nil
}
