package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// follow has a running process followed from where its stored output ends, and gives the handle that everyone shares.
func (h *Host) follow(p *Process) (*Process, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.processes[p.id]; known != nil {
		return known, nil
	}
	if h.closed {
		return nil, ErrClosed
	}
	out, err := h.spool.Writer(p.id)
	if err != nil {
		return nil, fmt.Errorf("output of %s: %w", p.id, err)
	}
	h.processes[p.id] = p
	h.tasks.Go(func() { p.run(h.ctx, out) })
	return p, nil
}

// run follows the process to its end, or to the host's.
func (p *Process) run(ctx context.Context, out *spool.Writer) {
	outcome := p.followToEnd(ctx, out)
	if err := out.Close(); err != nil {
		p.h.log.Error("closing stored output failed", "process", p.id, "error", err)
	}
	p.mu.Lock()
	p.outcome = outcome
	p.mu.Unlock()
	p.h.mu.Lock()
	delete(p.h.processes, p.id)
	p.h.mu.Unlock()
	close(p.done)
}

// localError marks a failure on this machine while following: the worker has no part in it.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

func (p *Process) followToEnd(ctx context.Context, out *spool.Writer) Outcome {
	var b backoff
	paused := false
	var failing time.Time // since when following fails for no reason that tells how the process is
	for {
		at := out.Position()
		conn, err := p.worker.acquirePatiently(ctx)
		if err == nil {
			if paused {
				p.tellPaused(nil)
				paused = false
			}
			var exit *sdk.Exit
			exit, err = p.followOnce(ctx, conn, out)
			if exit != nil {
				return Outcome{Exit: exit}
			}
		}
		if out.Position() > at {
			failing = time.Time{}
		}
		if ctx.Err() != nil {
			return Outcome{Err: fmt.Errorf("process of %s: %w", p.owner, ErrClosed)}
		}
		var gone *WorkerGoneError
		var local localError
		var stdin stdinError
		var e *sdk.Error
		switch {
		case errors.Is(err, errEndedWithoutExit):
			outcome, ended := p.judge(ctx, out)
			if !ended {
				outcome = p.lost(ctx, out, "its output was ended without an exit")
			}
			return outcome
		case errors.As(err, &stdin):
			// The process has no part in it: it goes on, without more stdin and without a false end of it.
			p.h.log.Error("stdin failed; the process goes on without it", "process", p.id, "error", err)
			p.mu.Lock()
			p.stdin = nil
			p.mu.Unlock()
			continue
		case errors.Is(err, errFollowAgain):
			continue
		case errors.As(err, &gone):
			return p.lost(ctx, out, gone.Error())
		case sdk.IsNotFound(err, sdk.KindContainer):
			outcome, ended := p.missing(ctx, out)
			if ended {
				return outcome
			}
		case errors.Is(err, sdk.ReasonAbandoned):
			return p.lost(ctx, out, "nobody was left to see how it ended")
		case errors.Is(err, sdk.ReasonRecordLost), sdk.IsNotFound(err, sdk.KindProcess):
			return p.lost(ctx, out, err.Error())
		case errors.Is(err, sdk.ReasonOutputGap) && errors.As(err, &e) && int64(e.Position) > out.Position():
			// What was acknowledged and dropped is not in the spool: another host's acknowledgement, or a spool that was removed.
			gap := spool.Record{Position: out.Position(), GapTo: int64(e.Position), Time: time.Now()}
			if err := out.Append([]spool.Record{gap}); err == nil {
				continue
			}
		case errors.As(err, &local):
			p.h.log.Error("output cannot be stored; the process waits once its journal is full", "process", p.id, "error", err)
		case errors.Is(err, sdk.Unavailable), errors.Is(err, sdk.ReasonSuperseded):
			// A follower that superseded this one is this host's own, on a newer connection, or another host's on a copy of the
			// state directory: following again settles the first and shows the second by its repetition.
			p.worker.failed(conn, err)
		default: // a defect of the plugin says nothing of the process
			if failing.IsZero() {
				failing = time.Now()
			}
			if time.Since(failing) >= p.h.cfg.Timing.WorkerGone {
				return p.lost(ctx, out, fmt.Sprintf("following it failed: %v", err))
			}
			p.h.log.Error("following failed; trying again", "process", p.id, "error", err)
		}
		p.tellPaused(err)
		paused = true
		if b.wait(ctx, err) != nil {
			continue // ctx has ended; the loop's head says so
		}
	}
}

// errEndedWithoutExit: an earlier host ended the stored output of a process that it gave up, and died before its row.
var errEndedWithoutExit = errors.New("its stored output was ended without an exit")

// errFollowAgain: the process has got a stdin meanwhile.
var errFollowAgain = errors.New("follow again")

// followOnce follows until the connection ends. It gives the exit once that is stored.
func (p *Process) followOnce(ctx context.Context, conn sdk.Worker, out *spool.Writer) (exit *sdk.Exit, err error) {
	if trailer, ok := out.Finished(); ok { // an earlier host stored the exit and died before its row
		if len(trailer) == 0 {
			return nil, errEndedWithoutExit
		}
		exit = new(sdk.Exit)
		if err := json.Unmarshal(trailer, exit); err != nil {
			return nil, localError{err}
		}
		return exit, p.stored(ctx, out, *exit)
	}
	fctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	stdin := p.stdin
	p.again = cancel
	p.mu.Unlock()
	acks := make(chan sdk.Position, 1)
	f := sdk.Follow{
		Acks: acks,
		Output: func(records []sdk.Record) error {
			if err := p.store(out, records); err != nil {
				return localError{err}
			}
			acknowledge(acks, sdk.Position(out.Position()))
			p.h.fault("output")
			return nil
		},
		Exit: func(e sdk.Exit) error {
			p.h.fault("exit")
			if err := p.stored(ctx, out, e); err != nil {
				return localError{err}
			}
			p.h.fault("exit-stored")
			exit = &e
			return nil
		},
	}
	if stdin != nil {
		feed := &lateReader{}
		f.Stdin = feed
		f.Taken = stdin.taken
		f.Opened = func(o sdk.Opened) (err error) {
			stdin.taken(o.StdinTaken)
			feed.Reader, err = stdin.from(fctx, o.StdinTaken)
			return err
		}
	}
	err = conn.FollowProcess(fctx, p.container, p.name, sdk.Position(out.Position()), f)
	if exit == nil && fctx.Err() != nil && ctx.Err() == nil {
		return nil, errFollowAgain
	}
	if err == nil && exit == nil {
		err = sdk.NewInternal(nil, "following ended without an exit")
	}
	return exit, err
}

// lateReader is a reader that is known only once the call that reads it has opened.
type lateReader struct{ io.Reader }

// acknowledge puts the newest position into a channel of capacity one, in place of an older one that was not taken yet. It
// never blocks: a runtime may take positions from the goroutine that delivers output.
func acknowledge(acks chan sdk.Position, to sdk.Position) {
	select {
	case <-acks:
	default:
	}
	acks <- to
}

func (p *Process) store(out *spool.Writer, records []sdk.Record) error {
	rs := make([]spool.Record, len(records))
	for i, r := range records {
		rs[i] = spool.Record{Stream: uint8(r.Stream), Position: int64(r.Position), Time: r.Time, Data: r.Data, GapTo: int64(r.GapTo)}
	}
	return out.Append(rs)
}

// stored writes the exit beside the output, then into the process's row.
func (p *Process) stored(ctx context.Context, out *spool.Writer, e sdk.Exit) error {
	trailer, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, ok := out.Finished(); !ok {
		if err := out.Finish(trailer); err != nil {
			return err
		}
	}
	return p.h.endProcess(ctx, p.id, processExited, "", &e)
}

// lost ends the process as lost: its output so far stays readable, and nothing is ever taken for its exit.
func (p *Process) lost(ctx context.Context, out *spool.Writer, reason string) Outcome {
	return p.ended(ctx, out, processLost, reason, &LostError{Owner: p.owner, Worker: p.worker.name, Reason: reason})
}

func (p *Process) ended(ctx context.Context, out *spool.Writer, state, reason string, outcome error) Outcome {
	if _, ok := out.Finished(); !ok {
		if err := out.Finish(nil); err != nil {
			p.h.log.Error("stored output cannot be ended", "process", p.id, "error", err)
		}
	}
	if err := p.h.endProcess(ctx, p.id, state, reason, nil); err != nil {
		outcome = errors.Join(outcome, err)
	}
	return Outcome{Err: outcome}
}

// missing judges a process whose container was not found. Whoever destroyed it here has said so in its row, and so has a
// change of incarnation. Otherwise the worker may be wrong for a while: only after the grace and a second list is it believed.
func (p *Process) missing(ctx context.Context, out *spool.Writer) (Outcome, bool) {
	since := time.Now()
	for {
		if outcome, ended := p.judge(ctx, out); ended {
			return outcome, true
		}
		wait := min(time.Until(since.Add(p.h.cfg.Timing.MissingGrace)), statusEvery)
		if wait > 0 {
			p.tellPaused(fmt.Errorf("worker %s does not know its container; it may come back", p.worker.name))
			select {
			case <-time.After(wait):
			case <-p.abort.Done():
			case <-ctx.Done():
				return Outcome{}, false
			}
		}
		there, err := p.listed(ctx)
		if err != nil || there {
			return Outcome{}, false
		}
		if wait <= 0 {
			reason := fmt.Sprintf("its container has been missing for %s", time.Since(since).Round(time.Second))
			if err := p.h.loseContainer(ctx, string(p.container), reason); err != nil {
				return Outcome{Err: err}, true
			}
			return p.lost(ctx, out, reason), true
		}
	}
}

// judge ends the process if its container's row tells how.
func (p *Process) judge(ctx context.Context, out *spool.Writer) (Outcome, bool) {
	row, err := p.row(ctx)
	if err != nil {
		return Outcome{Err: err}, true
	}
	switch row.State {
	case containerDestroying, containerDestroyed:
		reason := context.Cause(p.abort)
		if reason == nil {
			reason = errors.New("its container was destroyed")
		}
		return p.ended(ctx, out, processAborted, reason.Error(), &AbortedError{Owner: p.owner, Reason: reason.Error()}), true
	case containerLost:
		return p.lost(ctx, out, row.Reason), true
	}
	return Outcome{}, false
}

func (p *Process) row(ctx context.Context) (row store.Container, err error) {
	err = p.h.store.View(ctx, func(tx *store.Tx) error {
		row, err = tx.Container(string(p.container))
		return err
	})
	return row, err
}

func (p *Process) listed(ctx context.Context) (there bool, err error) {
	err = p.worker.call(ctx, "list containers", func(ctx context.Context, conn sdk.Worker) error {
		there = false
		return conn.ListContainers(ctx, sdk.Filter{ID: string(p.container)}, func(sdk.ContainerInfo) error {
			there = true
			return nil
		})
	})
	return there, err
}

func (p *Process) tellPaused(why error) {
	p.mu.Lock()
	f := p.paused
	p.mu.Unlock()
	if f != nil {
		f(why)
	}
}

// Abort ends the process: a TERM, and its container's destruction once it has ended, the grace is over, or hurry has ended. It
// returns when all that is done; the process's outcome then is its exit if that came in time, else an *AbortedError with
// the reason.
func (p *Process) Abort(ctx, hurry context.Context, c *Container, reason error, grace time.Duration) error {
	p.aborted(reason)
	// Kept before anything is sent: an exit that comes of it is none of the step's own, after a restart too.
	err := p.h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Process(p.id)
		if err != nil || row.State != processRunning {
			return err
		}
		row.Reason = reason.Error()
		return tx.PutProcess(row)
	})
	if err != nil {
		p.h.log.Error("the reason of an abort is not kept", "process", p.id, "error", err)
	}
	gctx, cancel := context.WithTimeout(hurry, grace)
	defer cancel()
	if err := p.Signal(gctx, sdk.TERM); err == nil {
		_, _ = p.Wait(gctx) // its end or the grace's, whichever is first
	}
	err = c.Destroy(ctx)
	if _, werr := p.Wait(ctx); werr != nil {
		err = errors.Join(err, werr)
	}
	return err
}
