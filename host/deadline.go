package host

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// A step's timeout is kept in the row of its process, so that it outlives the host that started it. While a run is under way the run holds its steps
// to their timeouts. After a restart the host does, for each process that it finds, until a run takes over by being resumed.

// deadline is what is left of the timeout of a process that an earlier host has started.
type deadline struct {
	timeout time.Duration
	at      time.Time     // on the wall clock
	passed  chan struct{} // closed once it has passed and the process still ran
	driven  atomic.Bool   // a run waits for the process, and ends it once that has passed
}

// deadlineOf gives the deadline that is kept of a running process; nil if it has none.
func (h *Host) deadlineOf(row store.Process) *deadline {
	if row.Timeout <= 0 || row.State != lifecycle.ProcessRunning {
		return nil
	}
	return &deadline{timeout: row.Timeout, at: row.Deadline, passed: make(chan struct{})}
}

// left is how much of the timeout is left. The wall clock may have been set back since: it is never more than the whole timeout.
func (d *deadline) left(wall time.Time) time.Duration {
	return min(max(d.at.Sub(wall), 0), d.timeout)
}

// keepDeadline ends the process once its timeout has passed, unless a run waits for it, which then does that itself. From here on the time is counted by the
// steady clock, which nobody sets. It returns when the process has ended, or over has.
func (p *Process) keepDeadline(over context.Context) {
	d, clock := p.deadline, p.h.clock
	left, began := d.left(clock.wall()), clock.steady()
	for rest := left; rest > 0; rest = left - (clock.steady() - began) {
		select {
		case <-clock.after(rest):
		case <-over.Done():
			return
		}
	}
	// It may have passed while there was no host, and the process may have ended by itself before: then its own end counts, which whoever follows it is told.
	if !p.stillRuns(over) {
		return
	}
	close(d.passed)
	if d.driven.Load() {
		return
	}
	p.h.log.Warn("the timeout of a step has passed while nobody drives its run: the step is ended, and whoever resumes the run is told",
		"owner", p.owner, "worker", p.worker.name, "timeout", d.timeout)
	ctx, cancel := p.h.undoing(p.h.ctx, DefaultGrace+cleanupTime)
	defer cancel()
	err := p.abort(ctx, ctx, string(p.container), errTimeout{d.timeout}, DefaultGrace)
	if err != nil && !errors.Is(err, ErrEnded) {
		p.h.log.Warn("aborting a step left something behind", "owner", p.owner, "error", err)
	}
}

// stillRuns asks the worker whether the process runs. A worker that is away is waited for: nothing can be ended there before it is back. A worker that
// cannot say does not keep the process from its end.
func (p *Process) stillRuns(over context.Context) bool {
	var b backoff
	for over.Err() == nil {
		var infos []sdk.ProcessInfo
		err := p.worker.call(over, "list processes", func(ctx context.Context, conn sdk.Worker) (err error) {
			infos, err = conn.ListProcesses(ctx, p.container)
			return err
		})
		gone := (*WorkerGoneError)(nil)
		switch {
		case err == nil:
			for _, i := range infos {
				if i.ID == p.name {
					return i.State != sdk.ProcessExited
				}
			}
			return false
		case sdk.IsNotFound(err, sdk.KindContainer):
			return false
		case !errors.Is(err, sdk.Unavailable) && !errors.As(err, &gone):
			return over.Err() == nil
		}
		if b.wait(over, err) != nil {
			return false
		}
	}
	return false
}

// wallTick is how often it is looked whether the wall clock was set. A deadline that was kept before that, and not moved since, would be taken by the next host
// for as much sooner or later.
const wallTick = maxDrift / 2

// watchWall moves the kept deadlines with the wall clock when that is set.
func (h *Host) watchWall() {
	wall, steady := h.clock.wall(), h.clock.steady()
	for {
		select {
		case <-h.clock.after(wallTick):
		case <-h.ctx.Done():
			return
		}
		nowWall, nowSteady := h.clock.wall(), h.clock.steady()
		set := nowWall.Sub(wall) - (nowSteady - steady)
		if set.Abs() <= maxDrift {
			continue
		}
		if err := h.moveDeadlines(h.ctx, set); err != nil {
			h.log.Warn("the wall clock was set, and the deadlines of running steps could not be moved with it; this is tried again", "by", set, "error", err)
			continue
		}
		wall, steady = nowWall, nowSteady
	}
}

// moveDeadlines moves the deadlines of what runs by as much as the wall clock was set.
func (h *Host) moveDeadlines(ctx context.Context, by time.Duration) error {
	running := store.ProcessFilter{States: []string{lifecycle.ProcessRunning}}
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		rows, err := tx.Processes(running)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Deadline.IsZero() {
				continue
			}
			_, err := processLife.move(tx, row.ID, lifecycle.Described, func(p *store.Process) error {
				p.Deadline = p.Deadline.Add(by)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
