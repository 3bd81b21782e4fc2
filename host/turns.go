package host

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// Steps take turns where more of them are ready than may go side by side: as many as a run asks for, as many as the configuration lets this host do, and never more
// than this process may have files open for.

// filesPerStep is how many files a step has open at most, most of the time: its output, who shows that, what it brings and takes away. ownFiles is what the host
// has besides.
const (
	filesPerStep = 6
	ownFiles     = 100
)

// turns bounds how many go side by side. A nil one bounds nothing.
type turns struct {
	most int64
	sem  *semaphore.Weighted
}

func newTurns(most int64) *turns {
	if most <= 0 {
		return nil
	}
	return &turns{most, semaphore.NewWeighted(most)}
}

// hostTurns are those of a host: of configured many, zero for no number, and of the files that it may have open.
func hostTurns(configured int) *turns {
	files := int64(0)
	if open := maxOpenFiles(); open > 0 {
		files = max((open-ownFiles)/filesPerStep, 1)
	}
	if configured > 0 && (files == 0 || int64(configured) < files) {
		files = int64(configured)
	}
	return newTurns(files)
}

// take waits for a turn; waits is called if there is none at once. Done has to be called at its end. The error is ctx's.
func (t *turns) take(ctx context.Context, waits func(most int64)) (done func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	if !t.sem.TryAcquire(1) {
		waits(t.most)
		if err := t.sem.Acquire(ctx, 1); err != nil {
			return nil, err
		}
	}
	return func() { t.sem.Release(1) }, nil
}

// turn waits until a step may go.
func (r *run) turn(ctx context.Context, step string) (done func(), err error) {
	waits := func(most int64) {
		r.crowded.Do(func() { // what is so of one step is so of all that come after it
			r.tell(Event{Step: step, Kind: EventWaiting, Message: fmt.Sprintf("for its turn, as others do: %d may go at a time", most)})
		})
	}
	mine, err := r.turns.take(ctx, waits)
	if err != nil {
		return nil, err
	}
	all, err := r.h.turns.take(ctx, waits)
	if err != nil {
		mine()
		return nil, err
	}
	return func() {
		all()
		mine()
	}, nil
}

// FilesExhausted tells whether an error says that this process, or this machine, has as many files open as it may: what failed so can be done again once others
// are closed.
func FilesExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// errFiles and errRoom are why something waits that would have failed so.
var (
	errFiles = errors.New("too many files are open: it goes on when others are closed; let slipway open more (ulimit -n), or run fewer steps at a time (--parallel)")
	errRoom  = errors.New("the disk of the state directory is full: it goes on when there is room")
)

// untilFiles does something again for as long as it fails for want of files, and has waits told so before each time. The error is that of the last time once ctx has ended.
func untilFiles(ctx context.Context, waits func(error), do func() error) error {
	return until(ctx, waits, do, func(err error) error {
		if FilesExhausted(err) {
			return errFiles
		}
		return nil
	})
}

// untilStored is untilFiles for what makes files itself, and so waits for room on the disk, too.
func untilStored(ctx context.Context, waits func(error), do func() error) error {
	return until(ctx, waits, do, func(err error) error {
		switch {
		case FilesExhausted(err):
			return errFiles
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return errRoom
		}
		return nil
	})
}

// until does something again for as long as passing gives a reason to wait for its error.
func until(ctx context.Context, waits func(error), do func() error, passing func(error) error) error {
	var b backoff
	for {
		err := do()
		if err == nil {
			return nil
		}
		why := passing(err)
		if why == nil {
			return err
		}
		waits(why)
		select {
		case <-time.After(b.after(nil)):
		case <-ctx.Done():
			return err
		}
	}
}
