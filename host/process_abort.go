package host

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Abort ends the process: a TERM, and its container's destruction once it has ended, the grace is over, or hurry has ended. It
// returns when all that is done; the process's outcome then is its exit if that came in time, else an *AbortedError with
// the reason. If the process has ended by itself before, nothing is done and the error is [ErrEnded].
func (p *Process) Abort(ctx, hurry context.Context, c *Container, reason error, grace time.Duration) error {
	return p.abort(ctx, hurry, string(c.id), reason, grace)
}

func (p *Process) abort(ctx, hurry context.Context, container string, reason error, grace time.Duration) error {
	// Kept before anything is sent: an exit that comes of it is none of the step's own, after a restart too.
	var row store.Process
	err := p.h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		m, err := processLife.move(tx, p.id, lifecycle.Told, func(row *store.Process) error {
			row.Reason = reason.Error()
			if late, ok := errors.AsType[errTimeout](reason); ok {
				row.TimedOut, row.Timeout = true, late.after
			}
			return nil
		})
		row = m.row
		return err
	})
	if err == nil && row.State == lifecycle.ProcessExited && row.Reason == "" {
		return ErrEnded
	}
	if err != nil {
		p.h.log.Error("the reason of an abort is not kept", "process", p.id, "error", err)
	}
	p.beginAbort(reason)
	gctx, cancel := context.WithTimeout(hurry, grace)
	defer cancel()
	if err := p.Signal(gctx, sdk.TERM); err == nil {
		_, _ = p.Wait(gctx) // its end or the grace's, whichever is first
	}
	if err := p.h.destroyContainer(ctx, container, doom{volumes: true}); err != nil {
		return err // the worker is away: it is destroyed once that is back
	}
	_, err = p.Wait(ctx)
	return err
}
