package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/store"
)

// What is kept while somebody asks for it now and then must not go because there was no host to ask. So what expired while there was none stays for
// a while after one has come, as a run does that can be resumed. A host that lives for less than that while gives it, too: the next one goes by
// when that opened, which the store keeps.

// openings is the row of the store's looks that says when hosts have opened. No worker has that name.
const openings = "."

// opened is what that row says beside its time, which is that of an opening.
type opened struct {
	Before time.Time // of the last one that was a grace before that, or more
}

// loadOpenings notes that a host opens now, and reads which of those before it opened a grace ago or more. If the clock was set back since, or that
// cannot be read, there was none: then all that has expired gets its while.
func (h *Host) loadOpenings(ctx context.Context) {
	now := h.clock.wall()
	var last store.Look
	var kept opened
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		last, err = tx.Look(openings)
		return ignoreNotFound(err)
	})
	if err == nil && len(last.Seen) > 0 {
		if err = json.Unmarshal(last.Seen, &kept); err != nil {
			err = fmt.Errorf("record of the last openings: %w", err)
		}
	}
	since := now.Sub(last.At)
	switch {
	case err != nil || last.At.IsZero() || since < 0:
		kept = opened{}
	case since < h.cfg().Timing.MissingGrace:
		h.openedBefore = kept.Before
		return
	default:
		kept = opened{Before: last.At}
	}
	h.openedBefore = kept.Before
	text, e := json.Marshal(kept)
	if e == nil {
		e = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
			return tx.PutLook(store.Look{ID: openings, At: now, Seen: text})
		})
	}
	for _, err := range []error{err, e} {
		if err != nil {
			h.log.Warn("when hosts opened this state directory is not known or not noted: what expires without one stays a while longer", "error", err)
		}
	}
}

// goes is when something really goes that is kept for ttl and expires at a time: not before its owner could ask a host for it for as long as the
// grace of what is missing, or ttl if that is less.
func (h *Host) goes(at time.Time, ttl time.Duration) time.Time {
	since := h.clock.wall().Add(h.openedAt - h.clock.steady())
	if at.Before(h.openedBefore) {
		since = h.openedBefore
	}
	return later(at, since.Add(min(ttl, h.cfg().Timing.MissingGrace)))
}

// artifactGoes is when an artifact goes that nobody owns, unless it is used before; zero: it does not.
func (h *Host) artifactGoes(row store.Artifact) time.Time {
	if row.ExpiresAt.IsZero() {
		return row.ExpiresAt
	}
	return h.goes(row.ExpiresAt, h.ttlOf(row))
}
