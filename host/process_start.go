package host

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// claimProcess finds the row of a process or makes it, before anything is sent. It survives a loss of power.
func (c *Container) claimProcess(ctx context.Context, spec sdk.ProcessSpec, timeout time.Duration) (row store.Process, fresh bool, err error) {
	kept := spec
	kept.Env = nil
	stored, err := json.Marshal(kept)
	if err != nil {
		return row, false, err
	}
	err = c.h.store.Update(ctx, store.PowerSafe, func(tx *store.Tx) error {
		m, err := processLife.move(tx, rowID(c.id, spec.ID), lifecycle.Claimed, func(p *store.Process) error {
			if c.state != lifecycle.ContainerReady {
				return &GoneError{Owner: c.owner, State: c.state}
			}
			container, err := tx.Container(string(c.id)) // what became of it since
			if err != nil {
				return err
			}
			if container.State != lifecycle.ContainerReady {
				return &GoneError{Owner: c.owner, State: container.State}
			}
			*p = store.Process{ID: rowID(c.id, spec.ID), Container: string(c.id), Token: string(spec.Token), Spec: stored, Timeout: timeout}
			return nil
		})
		row, fresh = m.row, m.yes
		if tooLate(err) { // it is there already
			return nil
		}
		return err
	})
	return row, fresh, err
}

// send sends the start until its effect is known. sent tells whether an earlier host may have sent it.
func (c *Container) send(ctx context.Context, p *Process, spec sdk.ProcessSpec, sent bool) error {
	var b backoff
	var last error // of a start whose effect is unknown
	began := time.Now()
	for {
		acquire := c.worker.acquire
		if sent { // it may well run
			acquire = c.worker.acquirePatiently
		}
		conn, err := acquire(ctx)
		if err != nil {
			return c.startFailed(ctx, p, sent, err)
		}
		if sent {
			running, err := c.settleStart(ctx, conn, spec)
			if running {
				return nil
			}
			if err == nil && last != nil && (!errors.Is(last, sdk.Unavailable) || silent(last)) {
				return c.startFailed(ctx, p, false, last) // the worker's own record says that it never ran
			}
			if errors.Is(err, sdk.Unavailable) && ctx.Err() == nil && !silent(err) && time.Since(began) < c.worker.patienceFor("list processes") {
				c.worker.failed(conn, err)
				if err := b.wait(ctx, err); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return c.startFailed(ctx, p, true, err)
			}
		}
		sent = true
		c.h.fault("start-send")
		last = c.worker.ask(ctx, "start process", func(ctx context.Context, _ func()) error { return conn.StartProcess(ctx, c.id, spec) })
		c.h.fault("start-sent")
		switch {
		case last == nil:
			return nil
		case errors.Is(last, sdk.Invalid), errors.Is(last, sdk.Unsupported), errors.Is(last, sdk.FailedPrecondition),
			errors.Is(last, sdk.Exhausted), errors.Is(last, sdk.AlreadyExists):
			return c.startFailed(ctx, p, false, last)
		case ctx.Err() != nil:
			return last // the row stays: whoever asks next settles it
		case errors.Is(last, sdk.Unavailable) && !silent(last):
			c.worker.failed(conn, last)
			if err := b.wait(ctx, last); err != nil {
				return err
			}
		}
	}
}

// settleStart asks the container's own record whether the start took effect.
func (c *Container) settleStart(ctx context.Context, conn sdk.Worker, spec sdk.ProcessSpec) (bool, error) {
	var infos []sdk.ProcessInfo
	err := c.worker.ask(ctx, "list processes", func(ctx context.Context, _ func()) (err error) {
		infos, err = conn.ListProcesses(ctx, c.id)
		return err
	})
	if err != nil {
		return false, err
	}
	for _, i := range infos {
		if i.ID != spec.ID {
			continue
		}
		if i.Token != spec.Token {
			return false, sdk.NewAlreadyExists(sdk.KindProcess, string(spec.ID))
		}
		return true, nil
	}
	return false, nil
}

// startFailed ends the row of a start that did not work: it goes if it surely had no effect, else the process is lost.
func (c *Container) startFailed(ctx context.Context, p *Process, sent bool, cause error) error {
	if ctx.Err() != nil || c.h.ctx.Err() != nil {
		return cause // the row stays: whoever asks next settles it
	}
	if !sent {
		err := c.h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
			_, err := processLife.move(tx, p.id, lifecycle.Refused, nil)
			return err
		})
		return errors.Join(cause, err)
	}
	lost := &LostError{Owner: c.owner, Worker: c.worker.name, Reason: cause.Error()}
	if err := c.h.endProcess(ctx, p.id, lifecycle.Lost, lost.Reason, nil); err != nil {
		return errors.Join(lost, err)
	}
	return lost
}
