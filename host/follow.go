package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

// follow has a running process followed from where its stored output ends, and gives the handle that everyone shares.
func (h *Host) follow(p *Process) (*Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.processes[p.container]
	if known := of[p.id]; known != nil {
		return known, nil
	}
	if h.closed {
		return nil, ErrClosed
	}
	if of == nil {
		of = make(map[string]*Process)
		h.processes[p.container] = of
	}
	of[p.id] = p
	over, ended := context.WithCancel(h.ctx)
	h.tasks.Go(func() {
		defer ended()
		p.run(h.ctx)
	})
	if p.deadline != nil {
		h.tasks.Go(func() { p.keepDeadline(over) })
	}
	return p, nil
}

// run follows the process to its end, or to the host's.
func (p *Process) run(ctx context.Context) {
	outcome := p.followInto(ctx)
	p.mu.Lock()
	p.outcome = outcome
	p.mu.Unlock()
	p.h.mu.Lock()
	of := p.h.processes[p.container]
	if delete(of, p.id); len(of) == 0 {
		delete(p.h.processes, p.container)
	}
	p.h.mu.Unlock()
	close(p.done)
}

// lastWords is how long following goes on once nothing more can come of it: its process's exit is stored, or its container is over. A plugin takes the last
// acknowledgement in it, or tells the last output.
const lastWords = time.Second

// containerOver has those who follow processes of a container that is over end, or who are about to, whatever its plugin makes of that. Who is attached later sees it
// in the container's row.
func (h *Host) containerOver(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.processes[sdk.ContainerID(id)] {
		time.AfterFunc(lastWords, p.endOver)
	}
	for p := range h.starting {
		if p.container == sdk.ContainerID(id) {
			time.AfterFunc(lastWords, p.endOver)
		}
	}
}

// starts has a process told that its container is over while it is being started, until it is followed.
func (h *Host) starts(p *Process) (followed func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starting[p] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.starting, p)
	}
}

func (p *Process) followInto(ctx context.Context) Outcome {
	var out *spool.Writer
	err := untilStored(ctx, p.h.dir, whileRunning, p.tellPaused, func() (err error) { // what was started is not given up for that
		if !p.noted {
			if _, err := p.h.markRunning(ctx, p.id); err != nil {
				return err
			}
			p.noted = true
		}
		out, err = p.h.spool.Writer(p.id)
		return err
	})
	close(p.stored) // or not: who reads sees that
	if err != nil {
		return Outcome{Err: fmt.Errorf("output of %s: %w", p.id, err)}
	}
	defer func() {
		if err := out.Close(); err != nil {
			p.h.log.Error("closing stored output failed", "process", p.id, "error", err)
		}
	}()
	return p.followToEnd(ctx, out)
}

func (p *Process) followToEnd(ctx context.Context, out *spool.Writer) Outcome {
	var b backoff
	skipped := false
	var failing time.Time // since when there has been no sign of the process
	var gap time.Time     // when the last one was passed
	pctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.over, stop)()
	pctx = onSilence(pctx, func(_ string, why error) {
		if why == nil {
			p.tellResumed()
			return
		}
		p.tellPaused(why)
	}, nil)
	for {
		conn, err := p.acquire(pctx)
		at := out.Position()
		var opened time.Time // zero: it was not
		if err == nil {
			var exit *sdk.Exit
			if exit, err = p.followOnce(ctx, pctx, conn, out, &opened); exit != nil {
				return Outcome{Exit: exit}
			}
		}
		if ctx.Err() != nil {
			return Outcome{Err: fmt.Errorf("process of %s: %w", p.owner, ErrClosed)}
		}
		if p.over.Err() != nil {
			err = errContainerOver
		}
		quiet := !opened.IsZero() && time.Since(opened) >= statusEvery // a process may be, for long
		if failing.IsZero() || out.Position() > at || quiet {
			failing, skipped = time.Now(), false
		}
		tooLong := time.Since(failing) >= p.h.cfg().Timing.WorkerGone
		switch v, reason := followVerdict(err, tooLong); v {
		case verdictAgain:
			continue
		case verdictNoStdin:
			p.h.log.Error("stdin failed; the process goes on without it", "process", p.id, "error", err)
			p.mu.Lock()
			p.stdin = nil
			p.mu.Unlock()
			continue
		case verdictGap:
			if p.skip(out, err) && !skipped {
				skipped = true
				often := time.Since(gap) < statusEvery // though there was output in between
				gap = time.Now()
				if !often {
					continue
				}
			}
			if tooLong { // there was one before, without output since, or it is none
				return p.lost(ctx, out, fmt.Sprintf("following it failed: %v", err))
			}
		case verdictEnded:
			if outcome, ended := p.judge(ctx, out); ended {
				return outcome
			}
			return p.lost(ctx, out, reason)
		case verdictMissing:
			if outcome, ended := p.missing(ctx, out); ended {
				return outcome
			}
		case verdictLost:
			return p.lost(ctx, out, reason)
		case verdictAway:
			p.worker.failed(conn, err)
		case verdictPause:
			p.h.log.Error("following failed; trying again", "process", p.id, "error", err)
		}
		if !errors.Is(err, sdk.ReasonPluginGone) || !p.worker.endsWithPlugin() { // else it is lost, as is said once its worker is seen again
			p.tellPaused(p.h.pausedBy(err))
		}
		_ = b.wait(pctx, err) // if that has ended, the loop's head says so
	}
}

// acquire waits for the worker, and has told soon that it does.
func (p *Process) acquire(ctx context.Context) (sdk.Worker, error) {
	late := time.AfterFunc(slowCall, func() {
		if gone, _, _ := p.worker.away(); gone != nil {
			p.tellPaused(gone.Cause)
		}
	})
	defer late.Stop()
	return p.worker.acquirePatiently(ctx)
}

// skip leaves a gap for what was acknowledged and dropped and is not in the spool: by another host on a copy of the state directory,
// or because the spool was removed.
func (p *Process) skip(out *spool.Writer, err error) bool {
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok || int64(e.Position) <= out.Position() {
		return false
	}
	gap := spool.Record{Position: out.Position(), GapTo: int64(e.Position), Time: time.Now()}
	return out.Append([]spool.Record{gap}) == nil
}

func (p *Process) store(out *spool.Writer, records []sdk.Record) error {
	rs := make([]spool.Record, len(records))
	for i, r := range records {
		rs[i] = spool.Record{Stream: uint8(r.Stream), Position: int64(r.Position), Time: r.Time, Data: r.Data, GapTo: int64(r.GapTo)}
	}
	return out.Append(rs)
}

// storeExit writes the exit beside the output, then into the process's row.
func (p *Process) storeExit(ctx context.Context, out *spool.Writer, e sdk.Exit) error {
	trailer, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, ok := out.Finished(); !ok {
		if err := out.Finish(trailer); err != nil {
			return err
		}
	}
	return p.h.endProcess(ctx, p.id, lifecycle.Exited, "", &e)
}

// lost ends the process as lost: its output so far stays readable, and nothing is ever taken for its exit.
func (p *Process) lost(ctx context.Context, out *spool.Writer, reason string) Outcome {
	return p.ended(ctx, out, lifecycle.Lost, reason, &LostError{Owner: p.owner, Worker: p.worker.name, Reason: reason})
}

func (p *Process) ended(ctx context.Context, out *spool.Writer, e lifecycle.Event, reason string, outcome error) Outcome {
	if _, ok := out.Finished(); !ok {
		if err := out.Finish(nil); err != nil {
			p.h.log.Error("stored output cannot be ended", "process", p.id, "error", err)
		}
	}
	if err := p.h.endProcess(ctx, p.id, e, reason, nil); err != nil {
		outcome = errors.Join(outcome, err)
	}
	return Outcome{Err: outcome}
}

// resumedAfter is how long following has to go on before it is told that it does, where there is no output. What fails at once was no resumption.
const resumedAfter = time.Second

// tellPaused tells why following does not go on.
func (p *Process) tellPaused(why error) {
	p.telling.Lock()
	defer p.telling.Unlock()
	p.pausedFor = why
	if p.paused != nil {
		p.paused(why)
	}
}

// tellResumed tells that it goes on, if it did not.
func (p *Process) tellResumed() {
	p.telling.Lock()
	defer p.telling.Unlock()
	if p.pausedFor != nil && p.paused != nil {
		p.paused(nil)
	}
	p.pausedFor = nil
}
