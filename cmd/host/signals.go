package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ os.Signal }

func (i interrupted) Error() string { return "interrupted by " + i.name() + " before it was done" }

// name is how people know the signal.
func (i interrupted) name() string {
	switch i.Signal {
	case os.Interrupt:
		return "SIGINT"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGHUP:
		return "SIGHUP"
	}
	return i.String()
}

// hangups are SIGHUPs that do not end slipway, once somebody has taken them.
type hangups struct {
	taken atomic.Bool
	c     chan struct{} // of capacity 1: several that nobody has seen to yet are one
}

func newHangups() *hangups { return &hangups{c: make(chan struct{}, 1)} }

// take has SIGHUP end slipway no more, and gives what tells of it.
func (h *hangups) take() <-chan struct{} {
	h.taken.Store(true)
	return h.c
}

// takes tells whether the signal is one that was taken.
func (h *hangups) takes(s os.Signal) bool {
	if s != syscall.SIGHUP || !h.taken.Load() {
		return false
	}
	select {
	case h.c <- struct{}{}:
	default:
	}
	return true
}

// watchSignals ends a context at the first signal that asks slipway to end, unless it is taken as a hangup, and closes hurry at the second, after which it calls giveUp if stop is not called within the
// time for that; the third has its usual effect. INT and HUP stay ignored where slipway was started so, as by nohup. A closed pipe is an error of the write, not a
// signal.
func watchSignals(end context.CancelCauseFunc, hups *hangups, within time.Duration, giveUp func()) (hurry <-chan struct{}, stop func()) {
	pipes := make(chan os.Signal, 1) // nobody reads it; ignoring the signal instead would be inherited by plugins
	signal.Notify(pipes, syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	second, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		next := func() os.Signal { // nil once nobody waits for any more
			for {
				select {
				case s := <-signals:
					if !hups.takes(s) {
						return s
					}
				case <-done:
					return nil
				}
			}
		}
		first := next()
		if first == nil {
			return
		}
		end(interrupted{first})
		if next() == nil {
			return
		}
		close(second)
		signal.Stop(signals)
		late := time.NewTimer(within)
		defer late.Stop()
		select {
		case <-late.C:
			giveUp()
		case <-done:
		}
	}()
	return second, func() { // signals stay caught: what is left to do then is not worth leaving undone
		close(done)
		<-ended
	}
}

// boundedBy gives a context of at most so long, of which a moment is left once somebody hurries. Release ends it and the watch.
func boundedBy(ctx context.Context, most time.Duration, hurry <-chan struct{}, moment time.Duration) (_ context.Context, release func()) {
	ctx, cancel := context.WithTimeout(ctx, most)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-hurry:
			t := time.AfterFunc(moment, cancel)
			defer t.Stop()
			<-ctx.Done()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		watch.Wait()
	}
}

// giveUpAfter is how long slipway may take to end after the second signal. By then everything has been told to end at once, so what goes on is stuck: in a
// file system that does not answer, perhaps. The tests' build has another, so that a busy machine does not change what is told.
var giveUpAfter = "1800ms"

func giveUpTime() time.Duration {
	d, err := time.ParseDuration(giveUpAfter)
	if err != nil {
		panic(err)
	}
	return d
}

// abandonTime is how long plugins may take to be killed, and a directory to be removed.
const abandonTime = 200 * time.Millisecond

// giveUp ends slipway wherever it is stuck, and leaves neither plugins nor a directory of its own.
func (a *app) giveUp() {
	if h := a.host.Load(); h != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		briefly(func() { _ = h.Close(ctx) }) // under way already, perhaps
		if a.stateDir == "" {
			briefly(func() { _ = os.RemoveAll(h.StateDir()) }) // what stays is swept by the next one
		}
	}
	os.Exit(codeInterrupted)
}

// briefly calls f and leaves it behind if it takes long: the process ends in any case.
func briefly(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(abandonTime):
	}
}
