package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Options bound and watch a relay. The zero value does neither.
type Options struct {
	// MaxBytes is how many bytes the archive may have; zero: any number. One more is Invalid with
	// sdk.ReasonTooLarge, on the side of the source.
	MaxBytes int64

	// Progress is told how far the relay is: about every 100 ms while bytes move, and once at the end, after an error
	// too. Calls never overlap, and Relay waits for them.
	Progress func(Stats)

	// Idle is how long neither side may move a byte, the time after the last byte included; zero: for ever. The side
	// that was waited for then fails with [ErrIdle], at the latest a quarter of Idle late.
	Idle time.Duration

	// Lag is how long a destination of a Broadcast may hold up the others; zero: a quarter of Idle.
	Lag time.Duration
}

// Stats says how far a relay is.
type Stats struct {
	Bytes int64 // that the destination has read
	Took  time.Duration
}

// Side is an end of a relay.
type Side string

// The sides.
const (
	Source      Side = "source"
	Destination Side = "destination"
)

// SideError says which side of a relay failed first, and why.
type SideError struct {
	Side Side
	Err  error
}

func (e *SideError) Error() string { return string(e.Side) + ": " + e.Err.Error() }

// Unwrap gives Err.
func (e *SideError) Unwrap() error { return e.Err }

var (
	// ErrNotRead is the destination's failure to read an archive to its end, though it reported success.
	ErrNotRead = errors.New("ended without having read the archive to its end")
	// ErrIdle is the failure of a side that moved nothing for Options.Idle.
	ErrIdle = errors.New("moved nothing for too long")
)

const progressEvery = 100 * time.Millisecond

// Relay runs src and dst side by side, src writing what dst reads, and returns when both have returned. At most
// 512 KiB lie between them.
//
// The first failure is the one returned, as *SideError; it reaches the other side at once, as the error of its reads or
// writes and, no later, as the cause of its context. A dst that succeeds without having read to EOF has failed with [ErrNotRead].
// If ctx ends first, its error is returned, with its cause if that is another.
//
// Both functions must return soon after their context ends. They own w and r for as long as they run, and neither may be used
// afterwards. Small writes are gathered: dst reads large pieces, and none before 64 KiB or the end are there.
func Relay(
	ctx context.Context, src func(ctx context.Context, w io.Writer) error, dst func(ctx context.Context, r io.Reader) error, opts Options,
) (Stats, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return Stats{}, contextError(ctx)
	}
	both, end := context.WithCancelCause(ctx)
	defer end(nil)
	p := newPipe(opts.MaxBytes, end)
	stats := func() Stats { return Stats{Bytes: p.taken(), Took: time.Since(start)} }
	fail := func(err error) {
		if ctx.Err() != nil { // whatever a side made of it
			err = contextError(ctx)
		}
		p.fail(err)
	}
	stop := context.AfterFunc(ctx, func() { p.fail(contextError(ctx)) })
	defer stop()

	sides := make(chan struct{})
	var watch, run sync.WaitGroup
	watch.Go(func() { watchRelay(p, opts, stats, fail, sides) })
	run.Go(func() {
		err := src(both, writeEnd{p})
		if err != nil || both.Err() != nil { // a source that was told to stop has not written all, whatever it says
			fail(&SideError{Side: Source, Err: cmp.Or(err, both.Err())})
			return
		}
		p.finish()
	})
	run.Go(func() {
		err := dst(both, readEnd{p})
		if err == nil && !p.drained() {
			err = ErrNotRead
		}
		if err != nil {
			fail(&SideError{Side: Destination, Err: err})
		}
	})
	run.Wait()
	close(sides)
	watch.Wait()

	last := stats()
	if opts.Progress != nil {
		opts.Progress(last)
	}
	return last, p.cause()
}

// watchRelay reports progress and ends an idle relay, until done is closed.
func watchRelay(p *pipe, opts Options, stats func() Stats, fail func(error), done <-chan struct{}) {
	every := opts.Idle / 4
	if opts.Progress != nil && (every == 0 || every > progressEvery) {
		every = progressEvery
	}
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	moved, since, told := int64(-1), time.Now(), int64(0)
	reported := time.Now()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		m, awaited := p.standing()
		if m != moved {
			moved, since = m, time.Now()
		}
		if opts.Idle > 0 && time.Since(since) >= opts.Idle {
			cause := fmt.Errorf("%w (%v)", ErrIdle, opts.Idle)
			fail(&SideError{Side: awaited, Err: sdk.NewUnavailable(cause, "%v", cause)})
			return
		}
		if s := stats(); opts.Progress != nil && s.Bytes != told && time.Since(reported) >= progressEvery {
			told, reported = s.Bytes, time.Now()
			opts.Progress(s)
		}
	}
}

// contextError is the error of an ended context, with its cause if that says more.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
