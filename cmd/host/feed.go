package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/spool"
)

// view shows a run. Its methods may be called from many goroutines, and may block for as long as nobody reads what is shown.
type view interface {
	event(host.Event)
	output(step string) sink                // what one step writes
	say(text string)                        // something of slipway's own
	end(res *host.RunResult, failure error) // the run is over; res may be nil
}

// sink shows what one step writes. It is used from one goroutine.
type sink interface {
	record(spool.Record)
	end(failure error) // nil: that was all
}

// feed brings a run's events and the output of its steps to a view, at the view's own pace: however slowly it shows them, the run
// goes on, for output waits in the spool and events are few. A step's end is shown after all of its output.
type feed struct {
	view view
	work sync.WaitGroup

	mu     sync.Mutex
	events []happening
	ring   chan struct{} // holds a token while there may be events, or when all have come
	whole  bool

	last   map[string]chan struct{}      // by step: closed when all that must be shown before its next lines is; of the loop
	copies map[string]context.CancelFunc // by step whose output is being shown
}

func newFeed(v view) *feed {
	f := &feed{view: v, ring: make(chan struct{}, 1), last: make(map[string]chan struct{}), copies: make(map[string]context.CancelFunc)}
	f.work.Go(f.loop)
	return f
}

// put takes an event. It never blocks. Progress that was not shown yet gives way to newer progress.
func (f *feed) put(e happening) {
	f.mu.Lock()
	if progress(e.Event) {
		f.events = slices.DeleteFunc(f.events, func(earlier happening) bool { return progress(earlier.Event) && earlier.Step == e.Step })
	}
	f.events = append(f.events, e)
	f.mu.Unlock()
	f.wake()
}

// progress tells events that only the newest of matters.
func progress(e host.Event) bool {
	return e.Kind == host.EventCreating || e.Kind == host.EventStreaming && !e.Stream.Done
}

func (f *feed) wake() {
	select {
	case f.ring <- struct{}{}:
	default: // rung already
	}
}

// finish waits until everything is shown. No event may be put after it.
func (f *feed) finish() {
	f.mu.Lock()
	f.whole = true
	f.mu.Unlock()
	f.wake()
	f.work.Wait()
}

func (f *feed) loop() {
	for range f.ring {
		f.mu.Lock()
		events, whole := f.events, f.whole
		f.events = nil
		f.mu.Unlock()
		for _, e := range events {
			f.show(e)
		}
		if whole {
			return
		}
	}
}

func (f *feed) show(e happening) {
	switch e.Kind {
	case host.EventStarted:
		ctx, cancel := context.WithCancel(context.Background())
		f.copies[e.Step] = cancel
		f.view.event(e.Event)
		f.inOrder(e.Step, func() {
			defer cancel()
			copyOutput(ctx, f.view.output(e.Step), e.open)
		})
	case host.EventFinished:
		if cancel := f.copies[e.Step]; cancel != nil && e.goesOn { // what it writes now is for whoever resumes the run
			cancel()
		}
		f.inOrder(e.Step, func() { f.view.event(e.Event) })
	case host.EventExited:
		f.inOrder(e.Step, func() { f.view.event(e.Event) })
	default:
		f.view.event(e.Event)
	}
}

// inOrder does something once what was put in order for the same step before is done.
func (f *feed) inOrder(step string, do func()) {
	before, done := f.last[step], make(chan struct{})
	f.last[step] = done
	f.work.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		do()
	})
}

// openAgain is how often output is opened that cannot be for want of files.
const openAgain = 200 * time.Millisecond

// copyOutput shows what a process writes, as it comes.
func copyOutput(ctx context.Context, to sink, open func(context.Context) (records, error)) {
	r, err := open(ctx)
	for err != nil && host.FilesExhausted(err) && ctx.Err() == nil {
		select {
		case <-time.After(openAgain):
			r, err = open(ctx)
		case <-ctx.Done():
		}
	}
	if err != nil {
		to.end(err)
		return
	}
	defer r.Close()
	copyRecords(ctx, to, r)
}

// copyRecords shows records until the last, or the last that there is so far.
func copyRecords(ctx context.Context, to sink, r records) {
	for {
		rec, err := r.Next(ctx)
		if err == nil {
			to.record(rec)
			continue
		}
		if errors.Is(err, io.EOF) || errors.Is(err, spool.ErrNoMore) || ctx.Err() != nil {
			err = nil
		}
		to.end(err)
		return
	}
}
