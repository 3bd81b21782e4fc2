package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
)

// logsEvery is how often it is looked for more of what a run writes that another process has: nothing tells this one.
const logsEvery = 200 * time.Millisecond

// follower shows the output of a run's steps as it is stored, whoever stores it.
type follower struct {
	a    *app
	r    *host.Records
	run  string
	only []string
	text *textView
	by   map[string]*followed // by step
}

// followed is one step's output.
type followed struct {
	to   *careful
	from *spool.Reader
	over bool
}

// followLogs shows what the steps of a run write, until it has ended.
func (a *app) followLogs(ctx context.Context, r *host.Records, run string, only []string) (err error) {
	f := &follower{a: a, r: r, run: run, only: only, text: newStepsView(a, only), by: make(map[string]*followed)}
	defer func() {
		for _, s := range f.by {
			if s.from != nil {
				err = errors.Join(err, s.from.Close())
			}
		}
	}()
	tick := time.NewTicker(logsEvery)
	defer tick.Stop()
	for {
		ended, err := f.ended(ctx) // before its steps are looked at: what they wrote is whole then
		if err != nil {
			return err
		}
		if err := f.look(ctx); err != nil {
			return err
		}
		if ended {
			return f.whole()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// whole is an error if not all that was stored could be shown, which was told with the step.
func (f *follower) whole() error {
	for _, s := range f.by {
		if s.to.broken {
			return codeError{errPrinted, codeInternal}
		}
	}
	return nil
}

func (f *follower) ended(ctx context.Context) (bool, error) {
	run, err := f.r.RunByID(ctx, f.run)
	if errors.Is(err, sdk.NotFound) {
		return false, f.a.noSteps(ctx, f.r, f.run)
	}
	return run.Ended, err
}

// look shows what has come since it was called last.
func (f *follower) look(ctx context.Context) error {
	steps, err := f.r.Steps(ctx, f.run)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if len(f.only) > 0 && !slices.Contains(f.only, s.Step) {
			continue
		}
		if err := f.step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) step(ctx context.Context, s host.StepRecord) error {
	shown := f.by[s.Step]
	if shown == nil {
		shown = &followed{to: f.a.stored(f.text, s.Step)}
		f.by[s.Step] = shown
	}
	if shown.over {
		return nil
	}
	going := s.State == lifecycle.ProcessStarting || s.State == lifecycle.ProcessRunning
	if shown.from == nil {
		from, err := f.r.Output(s)
		switch {
		case err == nil:
			shown.from = from
		case !neverWrote(s, err):
			f.end(shown, s, err)
			return nil
		case going:
			return nil // it has not begun to write
		default:
			f.end(shown, s, nil)
			return nil
		}
	}
	for {
		rec, err := shown.from.Next(ctx)
		switch {
		case err == nil:
			shown.to.record(rec)
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, spool.ErrNoMore) || errors.Is(err, io.EOF):
			if going {
				return nil // there may be more, and how it ends is stored after that
			}
			err = nil // whoever gave it up need not have ended its output
		}
		f.end(shown, s, err)
		return nil
	}
}

// end tells how a step ended, and why its output could not be shown to its end.
func (f *follower) end(shown *followed, s host.StepRecord, failure error) {
	shown.over = true
	shown.to.end(failure)
	if f.a.format == formatText {
		f.text.note(s.Step, recorded(s))
	}
}
