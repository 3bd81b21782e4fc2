package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// DefaultAnswer is how long a call on a worker may go on without an answer or progress where the configuration's timing does not say so. It is
// long, for some copy all of a volume, and do not tell how far they are.
const DefaultAnswer = 30 * time.Minute

// patience tells how long a call, by what it does, may go on without an answer or progress.
type patience func(what string) time.Duration

func patienceOf(d time.Duration) patience { return func(string) time.Duration { return d } }

// ask makes one call on a connection of the worker, which gives a sign whenever there is progress. The call is cut, with a
// *WorkerGoneError, once the worker has been away for as long as the host waits for it, and once there has been neither an answer nor a
// sign for as long as its patience, whatever the worker's status says. Whoever listens to ctx is told long before that.
func (w *worker) ask(ctx context.Context, what string, f func(ctx context.Context, sign func()) error) error {
	cctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	defer context.AfterFunc(w.presence(), func() { cut(w.goneError()) })()
	patience := w.patienceFor(what)
	limit := time.AfterFunc(patience, func() { cut(w.silentError(what)) })
	defer limit.Stop()
	heard := listen(ctx, w, what)
	err := f(cctx, func() {
		limit.Reset(patience)
		heard.sign()
	})
	if gone := (*WorkerGoneError)(nil); err != nil && ctx.Err() == nil && errors.As(context.Cause(cctx), &gone) {
		heard.end(false)
		return gone
	}
	heard.end(true)
	return err
}

// silent tells that a call was cut for want of an answer.
func silent(err error) bool {
	gone, ok := errors.AsType[*WorkerGoneError](err)
	return ok && gone.Silent
}

func (w *worker) silentError(what string) error {
	return &WorkerGoneError{Worker: w.name, Away: w.patienceFor(what), Silent: true, Cause: sdk.NewUnavailable(nil, "%s", what)}
}

func (w *worker) goneError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &WorkerGoneError{Worker: w.name, Away: time.Since(w.since), Cause: sdk.NewUnavailable(w.why, "%v", w.why)}
}

// slowCall is how long a call goes on before whoever waits for it is told what it waits for.
const slowCall = 2 * time.Second

// TellSlow has what is done under the context tell what it waits for on a worker, such as "list", once that takes more than a moment, two seconds.
// Tell may be called by several goroutines at once, and again for the same worker. Steps and containers tell their own observers instead.
func TellSlow(ctx context.Context, tell func(worker, what string)) context.Context {
	return onSilence(ctx, func(string, error) {}, tell)
}

// silence tells one listener of calls that stay without an answer.
type silence struct {
	tell func(worker string, why error)
	slow func(worker, what string) // nil: only what has been silent for long is told

	mu    sync.Mutex
	calls int // that have been silent for long
}

type silenceKey struct{}

// onSilence has calls under the context tell when the first of them is silent for long, with what it is, and with nil when none is any more. Each that takes more
// than a moment is told to slow, if that is not nil.
func onSilence(ctx context.Context, tell func(worker string, why error), slow func(worker, what string)) context.Context {
	return context.WithValue(ctx, silenceKey{}, &silence{tell: tell, slow: slow})
}

// announce tells whoever listens to the context that a worker is waited for, and why, until end is called.
func announce(ctx context.Context, worker string, why error) (end func()) {
	to, ok := ctx.Value(silenceKey{}).(hearer)
	if !ok {
		return func() {}
	}
	to.begin(worker, why)
	return func() { to.end(worker, true) }
}

// begin notes a call that is silent.
func (s *silence) begin(worker string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls++; s.calls == 1 {
		s.tell(worker, why)
	}
}

// end notes that it is not any more: it goes on, or was cut.
func (s *silence) end(worker string, goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls--; s.calls == 0 && goesOn {
		s.tell(worker, nil)
	}
}

func (s *silence) slowly(worker, what string) {
	if s.slow != nil {
		s.slow(worker, what)
	}
}

func (s *silence) hearsSlow() bool { return s.slow != nil }

// listener watches one call for a context's silence. A nil one does nothing.
type listener struct {
	to    hearer
	of    *worker
	timer *time.Timer
	slow  *time.Timer // nil: that is not told

	mu           sync.Mutex
	silent, over bool
}

// listen watches a call until the listener is ended.
func listen(ctx context.Context, w *worker, what string) *listener {
	return listenFor(ctx, w, func() string { return what })
}

// listenFor is listen for what is known only when it is told.
func listenFor(ctx context.Context, w *worker, what func() string) *listener {
	to, ok := ctx.Value(silenceKey{}).(hearer)
	if !ok || w.stalled() <= 0 {
		return nil
	}
	l := &listener{to: to, of: w}
	l.mu.Lock()
	defer l.mu.Unlock()
	if to.hearsSlow() {
		l.slow = time.AfterFunc(slowCall, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if !l.over {
				to.slowly(w.name, what())
			}
		})
	}
	l.timer = time.AfterFunc(w.stalled(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.over && !l.silent {
			l.silent = true
			to.begin(w.name, fmt.Errorf("worker %s has not answered for %s: %s", w.name, w.stalled(), what()))
		}
	})
	return l
}

// sign notes that there is progress.
func (l *listener) sign() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	if l.silent {
		l.silent = false
		l.to.end(l.of.name, true)
	}
	l.timer.Reset(l.of.stalled())
}

// hold says that the call waits for whoever takes what it gives, not for the worker, until goOn.
func (l *listener) hold() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	if l.slow != nil {
		l.slow.Stop()
	}
}

// goOn notes progress of a stream: a worker that then gives nothing is waited for anew.
func (l *listener) goOn() {
	if l == nil {
		return
	}
	l.sign()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slow != nil && !l.over {
		l.slow.Reset(slowCall)
	}
}

// end notes that the call has come to an end, or was cut. Nothing is told of it afterwards.
func (l *listener) end(answered bool) {
	if l == nil {
		return
	}
	l.timer.Stop()
	if l.slow != nil {
		l.slow.Stop()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent && !l.over {
		l.to.end(l.of.name, answered)
	}
	l.over = true
}
