package host

import (
	"fmt"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// EventKind says what an [Event] tells.
type EventKind string

// The kinds of events, in the order in which a step has them.
const (
	EventWaiting   EventKind = "waiting"   // for a worker, or once it has that, for what Worker does; Message says why
	EventPlaced    EventKind = "placed"    // on Worker
	EventStreaming EventKind = "streaming" // Stream tells how far
	EventCreating  EventKind = "creating"  // the runtime's own progress, in Message
	EventStarted   EventKind = "started"   // Process is set
	EventPaused    EventKind = "paused"    // the worker is away, or silent, in Message; the process may well go on
	EventResumed   EventKind = "resumed"
	EventExited    EventKind = "exited"   // Exit is set
	EventAgain     EventKind = "again"    // it was lost on Worker, for the reason in Message, and is tried on another; Result is of that attempt
	EventFinished  EventKind = "finished" // Result is set; the last one of a step
)

// Event is something that happened to a step.
type Event struct {
	Time    time.Time
	Step    string
	Kind    EventKind
	Worker  string
	Message string
	Stream  *StreamProgress
	Process *Process
	Exit    *sdk.Exit
	Result  *StepResult
	// Repeated says with Result that this end was told before: to an earlier host's client, or by EventAgain, where there was no other worker after all. Who counts leaves it out.
	Repeated bool
}

// pauseEvent tells that something waits for a worker, with the reason, or that it goes on.
func pauseEvent(worker string, why error) Event {
	if why == nil {
		return Event{Kind: EventResumed, Worker: worker}
	}
	return Event{Kind: EventPaused, Worker: worker, Message: why.Error()}
}

// slowEvent tells what a worker is waited for.
func slowEvent(worker, what string) Event {
	return Event{Kind: EventWaiting, Worker: worker, Message: fmt.Sprintf("for worker %s: %s", worker, what)}
}

// progressEvery is how often a plugin's progress is told, however often it tells any.
const progressEvery = 100 * time.Millisecond

// pacer tells an event at once, and of those that follow soon the newest, after a while. It may be used by several goroutines.
type pacer struct {
	tell func(Event)

	mu     sync.Mutex
	newest *Event      // that was not told yet
	timer  *time.Timer // nil: nothing was told of late
	ended  bool
}

func (p *pacer) put(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = &e
	if p.timer == nil {
		p.tellNewest()
	}
}

// tellNewest tells what is to be told, and looks again after a while. The caller holds p.mu.
func (p *pacer) tellNewest() {
	p.timer = nil
	if p.newest == nil || p.ended {
		return
	}
	p.tell(*p.newest)
	p.newest = nil
	p.timer = time.AfterFunc(progressEvery, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tellNewest()
	})
}

// end has nothing more told. It waits for what is being told.
func (p *pacer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// StreamProgress tells how far a stream of data has come.
type StreamProgress struct {
	Artifact string // its name
	From, To string // workers, or "local"
	Via      string // the encoding of the bytes, such as "raw" or "zstd", or ViaDirect
	Bytes    int64  // as they are sent; of a direct stream the content's, at its end; negative: unknown
	Took     time.Duration
	Done     bool
}

// Rate is how many bytes a second have come so far; 0 where that is unknown.
func (s StreamProgress) Rate() int64 {
	if s.Bytes <= 0 || s.Took <= 0 {
		return 0
	}
	return int64(float64(s.Bytes) / s.Took.Seconds())
}

// whileHere gives an observer that is told nothing any more once leave has returned: others may go on with what a caller began.
func whileHere(observe func(Event)) (_ func(Event), leave func()) {
	if observe == nil {
		return nil, func() {}
	}
	var mu sync.RWMutex
	left := false
	return func(e Event) {
			mu.RLock()
			defer mu.RUnlock()
			if !left {
				observe(e)
			}
		}, func() {
			mu.Lock()
			defer mu.Unlock()
			left = true
		}
}
