package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Target is one of several destinations of a [Broadcast].
type Target struct {
	Ctx      context.Context // of this destination alone: its end stops only this one
	Write    func(ctx context.Context, r io.Reader) error
	Progress func(Stats)        // as Options.Progress, but for the last one; nil: nobody is told
	Ended    func(Stats, error) // called once when Write has returned, with the error that Relay would give; nothing is called afterwards
}

// ErrLagging is the failure of a destination that others had to wait for.
var ErrLagging = errors.New("is too slow for the others")

// Broadcast is [Relay] from one source to several destinations: src runs once, and each of them reads all that it writes. It returns when all
// have returned.
//
// A destination that fails leaves the others as they are, and so does one that has not moved for opts.Lag while the source waits
// for it and another has read all that there is: it fails with ErrLagging, as Unavailable. When the last one has ended src is stopped, if it has not
// ended by itself. opts.Progress is not used.
func Broadcast(src func(ctx context.Context, w io.Writer) error, targets []Target, opts Options) {
	b := &broadcast{start: time.Now(), opts: opts, targets: targets, ended: make([]bool, len(targets)), told: make([]bool, len(targets))}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(targets[0].Ctx))
	defer stop(nil)
	b.stop = stop
	for _, t := range targets {
		both, end := context.WithCancelCause(t.Ctx)
		b.pipes, b.ctxs, b.ends = append(b.pipes, newPipe(opts.MaxBytes, end)), append(b.ctxs, both), append(b.ends, end)
	}
	done := make(chan struct{})
	var run, watch sync.WaitGroup
	for i, t := range targets {
		halt := context.AfterFunc(t.Ctx, func() { b.fail(i, nil) })
		run.Go(func() {
			defer b.ends[i](nil)
			defer halt()
			err := t.Write(b.ctxs[i], readEnd{b.pipes[i]})
			if err == nil && !b.pipes[i].drained() {
				err = ErrNotRead
			}
			if err != nil {
				b.fail(i, &SideError{Side: Destination, Err: err})
			}
			b.over(i)
			b.tell(i, func() { t.Ended(b.stats(i), b.pipes[i].cause()) }, true)
		})
	}
	watch.Go(func() { b.watch(done) })
	run.Go(func() {
		err := src(ctx, b)
		if err == nil {
			err = context.Cause(ctx) // a source that was told to stop has not written all, whatever it says
		}
		for i, p := range b.pipes {
			if err != nil {
				b.fail(i, sourceError(err))
				continue
			}
			p.finish()
		}
	})
	run.Wait()
	close(done)
	watch.Wait()
}

// sourceError is an error of the source; one that says so stays as it is.
func sourceError(err error) error {
	if side, ok := err.(*SideError); ok && side.Side == Source {
		return err
	}
	return &SideError{Side: Source, Err: err}
}

type broadcast struct {
	start   time.Time
	opts    Options
	targets []Target
	pipes   []*pipe
	ctxs    []context.Context
	ends    []context.CancelCauseFunc
	stop    context.CancelCauseFunc // of the source

	writing atomic.Bool // the source waits for a destination, or is about to hand over

	mu    sync.Mutex
	ended []bool // by target: nothing more is written to it

	telling sync.Mutex
	told    []bool // by target: that it has ended
}

// tell calls a target's function, unless it was told its end; last is that of its end.
func (b *broadcast) tell(i int, call func(), last bool) {
	b.telling.Lock()
	defer b.telling.Unlock()
	if b.told[i] {
		return
	}
	b.told[i] = last
	call()
}

var errNobodyLeft = errors.New("all destinations have failed")

// Write hands the same bytes to each destination that is left.
func (b *broadcast) Write(p []byte) (int, error) {
	b.writing.Store(true)
	defer b.writing.Store(false)
	left := false
	for i, to := range b.pipes {
		if b.isOver(i) {
			continue
		}
		if _, err := (writeEnd{to}).Write(p); err != nil {
			if side, ok := errors.AsType[*SideError](err); ok && side.Side == Source { // the limit, which is that of all, even if src overlooks it
				for j := range b.pipes {
					b.fail(j, sourceError(err))
				}
				return 0, err
			}
			b.over(i)
			continue
		}
		left = true
	}
	if !left {
		return 0, errNobodyLeft
	}
	return len(p), nil
}

func (b *broadcast) isOver(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended[i]
}

// over notes that a destination takes no more. The source is stopped after the last.
func (b *broadcast) over(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended[i] = true
	for _, e := range b.ended {
		if !e {
			return
		}
	}
	b.stop(errNobodyLeft)
}

// fail ends one destination. Whatever a side made of its context's end, that is the error; nil stands for it, too.
func (b *broadcast) fail(i int, err error) {
	if ctx := b.targets[i].Ctx; ctx.Err() != nil {
		err = contextError(ctx)
	}
	b.pipes[i].fail(err)
	b.over(i)
}

func (b *broadcast) stats(i int) Stats {
	return Stats{Bytes: b.pipes[i].taken(), Took: time.Since(b.start)}
}

// watch reports progress, and ends who moves nothing, until done is closed.
func (b *broadcast) watch(done <-chan struct{}) {
	every := progressEvery
	if b.opts.Idle > 0 {
		every = min(every, max(b.opts.Idle/16, time.Millisecond))
	}
	lag := cmp.Or(b.opts.Lag, b.opts.Idle/4)
	tick := time.NewTicker(every)
	defer tick.Stop()
	now := time.Now()
	moved, since, told := make([]int64, len(b.pipes)), make([]time.Time, len(b.pipes)), make([]int64, len(b.pipes))
	for i := range since {
		since[i] = now
	}
	awaited := make([]Side, len(b.pipes))
	read := now // when the source was last not what anybody waited for
	for {
		select {
		case <-done:
			return
		case now = <-tick.C:
		}
		waiting := false // somebody has read all that there is
		for i, p := range b.pipes {
			m, side := p.standing() // of one moment: what moves meanwhile is the next look's
			if awaited[i] = side; m != moved[i] {
				moved[i], since[i], read = m, now, now
			}
			if b.isOver(i) {
				continue
			}
			waiting = waiting || side == Source
			if s := b.stats(i); b.targets[i].Progress != nil && s.Bytes != told[i] {
				told[i] = s.Bytes
				b.tell(i, func() { b.targets[i].Progress(s) }, false)
			}
		}
		if b.opts.Idle <= 0 {
			continue
		}
		if b.writing.Load() {
			read = now
		}
		for i, side := range awaited {
			switch idle := now.Sub(since[i]); {
			case b.isOver(i):
			case side == Destination && idle >= b.opts.Idle:
				b.idle(i, Destination, ErrIdle, b.opts.Idle)
			case side == Destination && idle >= lag && waiting && b.writing.Load():
				b.idle(i, Destination, ErrLagging, lag)
			case side == Source && now.Sub(read) >= b.opts.Idle:
				b.idle(i, Source, ErrIdle, b.opts.Idle)
			}
		}
	}
}

func (b *broadcast) idle(i int, side Side, why error, after time.Duration) {
	cause := fmt.Errorf("%w (%v)", why, after)
	b.fail(i, &SideError{Side: side, Err: sdk.NewUnavailable(cause, "%v", cause)})
}
