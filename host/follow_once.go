package host

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

// Here a process is followed over one connection, for as long as that lasts: what its plugin tells is stored, acknowledged and judged.

// followOnce follows until the connection ends. It notes when its plugin has begun to tell of the process, and gives the exit once that is stored.
func (p *Process) followOnce(ctx, heard context.Context, conn sdk.Worker, out *spool.Writer, began *time.Time) (exit *sdk.Exit, err error) {
	if trailer, ok := out.Finished(); ok { // an earlier host stored the exit and died before its row
		if len(trailer) == 0 {
			return nil, errEndedWithoutExit
		}
		exit = new(sdk.Exit)
		if err := json.Unmarshal(trailer, exit); err != nil {
			return nil, localError{err}
		}
		if err := exit.Validate(); err != nil { // an older host took what its plugin told
			return nil, badExitError{err}
		}
		return exit, p.storeExit(ctx, out, *exit)
	}
	fctx, cut := context.WithCancelCause(ctx)
	cancel := func() { cut(nil) }
	defer cancel()
	defer context.AfterFunc(p.over, cancel)()
	defer context.AfterFunc(p.worker.presence(), cancel)() // nobody may be left to end a follow on a worker that is gone
	p.mu.Lock()
	stdin := p.stdin
	p.again = cancel
	p.mu.Unlock()
	opened := p.awaitOpened(heard, cut)
	defer opened()
	var resumed *time.Timer
	defer func() {
		if resumed != nil {
			resumed.Stop()
		}
	}()
	acks := make(chan sdk.Position, 1)
	var bad error // a badExitError
	f := sdk.Follow{
		Acks: acks,
		Opened: func(sdk.Opened) error {
			opened()
			*began = time.Now()
			resumed = time.AfterFunc(resumedAfter, p.tellResumed)
			return nil
		},
		Output: func(records []sdk.Record) error {
			if exit != nil { // nothing comes after that
				return nil
			}
			if err := p.store(out, records); err != nil {
				return storeError(err)
			}
			p.tellResumed()
			acknowledge(acks, sdk.Position(out.Position()))
			p.h.fault("output")
			return nil
		},
		Exit: func(e sdk.Exit) error {
			e, defect, err := p.told.admit(e)
			if defect != nil {
				p.h.log.Error("a plugin's defect", "plugin", p.worker.plugin, "worker", p.worker.name, "process", p.id, "error", defect)
			}
			if bad = err; bad != nil {
				cut(bad) // whether the plugin ends the call now or not
				return bad
			}
			if exit != nil {
				return nil
			}
			p.h.fault("exit")
			if err := p.storeExit(ctx, out, e); err != nil {
				return localError{err}
			}
			p.h.fault("exit-stored")
			exit = &e
			p.tellResumed()
			time.AfterFunc(lastWords, cancel)
			return nil
		},
	}
	if stdin != nil {
		feed, plain := &lateReader{}, f.Opened
		f.Stdin = feed
		f.Taken = stdin.taken
		f.Opened = func(o sdk.Opened) (err error) {
			_ = plain(o)
			stdin.taken(o.StdinTaken)
			feed.Reader, err = stdin.from(fctx, o.StdinTaken)
			return err
		}
	}
	err = conn.FollowProcess(fctx, p.container, p.name, sdk.Position(out.Position()), f)
	if bad != nil { // whatever the plugin made of that
		return nil, bad
	}
	if why := context.Cause(fctx); exit == nil && ctx.Err() == nil && silent(why) {
		return nil, why
	}
	if exit == nil && fctx.Err() != nil && ctx.Err() == nil {
		return nil, errFollowAgain
	}
	if err == nil && exit == nil {
		err = sdk.NewInternal(nil, "following ended without an exit")
	}
	return exit, err
}

// awaitOpened cuts a following that does not begin: a process may be quiet for ever, but Opened comes at once.
func (p *Process) awaitOpened(ctx context.Context, cut context.CancelCauseFunc) (opened func()) {
	const what = "follow process"
	heard := listen(ctx, p.worker, what)
	limit := time.AfterFunc(p.worker.patienceFor(what), func() {
		heard.end(false)
		cut(p.worker.silentError(what))
	})
	return func() {
		limit.Stop()
		heard.end(true)
	}
}

// storeError tells what a plugin tells wrongly from what this machine cannot keep.
func storeError(err error) error {
	if _, beyond := errors.AsType[*spool.BeyondError](err); beyond || errors.Is(err, spool.ErrInvalid) {
		return sdk.NewInternal(err, "its plugin tells output that there cannot be")
	}
	return localError{err}
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
