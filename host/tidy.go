package host

import (
	"context"
	"errors"
	"fmt"
)

// Tidy does once what a host that stays open does all the time: it ends runs that are overdue, gives up artifacts that have expired, forgets records that
// have been kept for long enough, and waits for what is to be destroyed, which it gives as [Host.AwaitOwed] does. It is for programs that open a host for one
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
	return errors.Join(errRuns, errArtifacts, h.forgetOld(ctx))
}

// forgetOld forgets what has been kept for long enough, and gives its space back.
func (h *Host) forgetOld(ctx context.Context) error {
	if err := h.forget(ctx, h.clock.wall().Add(-h.cfg.Reaping.OrDefault().Records)); err != nil {
		return fmt.Errorf("forget what is over: %w", err)
	}
	if err := h.store.Shrink(ctx); err != nil {
		return fmt.Errorf("give the space of what is forgotten back: %w", err)
	}
	return nil
}
