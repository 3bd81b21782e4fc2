package keeper

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Journal is the record of one process: what it wrote, what it is fed and how it ended. The process's side writes and reads, one
// follower at a time drains and feeds it. All methods may be called from many goroutines at once.
type Journal struct {
	process  sdk.ProcessID
	spill    int64
	whenFull sdk.WhenFull
	found    bool // by Ended: what it was like before is not known exactly

	mu      sync.Mutex
	changed bell // both sides wait for each other on it

	store Store // what lies between acked and its oldest position is a gap
	acked sdk.Position

	closed    bool // what is written now is thrown away
	exit      *sdk.Exit
	abandoned bool
	gone      error // why no follower can have the journal any more

	stdin       stdin
	follower    *follower // the newest one, while its call lasts
	newest      *As       // who it is, also afterwards; nil: nobody has followed yet
	generations int64
}

// New makes the journal of a process that starts now. It takes ID, Stdin, Spill and WhenFull from the spec, which must be valid.
// With a nil store everything is kept in memory; any other must be new and belongs to the journal from now on.
func New(spec sdk.ProcessSpec, store Store) *Journal {
	if store == nil {
		store = newMemory(spillOf(spec))
	}
	return &Journal{
		process:  spec.ID,
		spill:    spillOf(spec),
		whenFull: spec.WhenFull,
		store:    store,
		stdin:    stdin{closed: !spec.Stdin},
	}
}

// Ended makes the journal of a process whose keeper is gone, from what it left: the exit, or nil if the process was abandoned,
// and the records, or nil if there are none. Which positions were acknowledged is not known any more: following below the
// oldest one gives a gap, unless all was acknowledged, and one beyond the end is believed to whoever follows from it.
func Ended(process sdk.ProcessID, store Store, exit *sdk.Exit) *Journal {
	if store == nil {
		store = newMemory(0)
	}
	j := &Journal{process: process, found: true, store: store, closed: true, abandoned: exit == nil, stdin: stdin{closed: true}}
	if exit != nil {
		e := *exit
		j.exit = &e
	}
	if oldest, end := store.Bounds(); oldest == end { // only acknowledging leaves nothing
		j.acked = end
	}
	store.Seal()
	return j
}

// Write journals p. Under [sdk.BlockWriter] it waits for room, as long as ctx lets it; an error is always that of ctx, and what
// was written by then stays. After the end of the output it takes and forgets everything, so that a left-over writer is not harmed.
func (j *Journal) Write(ctx context.Context, stream sdk.Stream, p []byte) (int, error) {
	written := 0
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.closed {
		n := j.append(stream, p[written:])
		written += n
		if n > 0 {
			j.changed.ring()
		}
		if written == len(p) {
			return written, nil
		}
		if err := j.changed.wait(ctx, &j.mu); err != nil {
			return written, err
		}
	}
	return len(p), nil
}

// append takes as much of p as there is room for and returns how much that was.
func (j *Journal) append(stream sdk.Stream, p []byte) int {
	now := time.Now()
	taken := 0
	for taken < len(p) {
		part := p[taken:min(len(p), taken+recordBytes)] // at a time, so that not much more than spill is ever kept
		oldest, end := j.store.Bounds()
		room := j.spill - int64(end-oldest)
		if j.whenFull == sdk.BlockWriter {
			part = part[:min(int64(len(part)), max(room, 0))]
		}
		n := 0
		if len(part) > 0 {
			n = j.store.Append(stream, now, part)
		}
		taken += n
		if n == 0 && (j.whenFull == sdk.BlockWriter || !j.store.Evict()) {
			break
		}
		if over := int64(n) - room; over > 0 {
			j.store.Drop(oldest + sdk.Position(over))
		}
	}
	return taken
}

// CloseOutput ends the output: what is written from now on, also by a Write that waits for room, is thrown away, and End is final.
func (j *Journal) CloseOutput() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.changed.ring()
}

// End is the position after all that was written.
func (j *Journal) End() sdk.Position {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, end := j.store.Bounds()
	return end
}

// Exit records how the process ended, once and for ever, and ends its output and stdin. Followers learn it after all output;
// when it and all output are acknowledged, nothing but a tombstone is left. Does nothing after Abandon.
func (j *Journal) Exit(e sdk.Exit) {
	j.end(func() { j.exit = &e })
}

// Abandon says that nobody is left who could tell the exit, and ends output and stdin. Followers get what is there and then
// FailedPrecondition with [sdk.ReasonAbandoned]. Does nothing after Exit.
func (j *Journal) Abandon() {
	j.end(func() { j.abandoned = true })
}

func (j *Journal) end(record func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.exit != nil || j.abandoned {
		return
	}
	record()
	j.closed = true
	j.stdin.close()
	j.store.Seal()
	j.changed.ring()
}

// Abort takes the journal from its follower and all later ones, who end with err, and drops everything.
func (j *Journal) Abort(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone = err
	j.closed = true
	_, end := j.store.Bounds()
	j.store.Drop(end)
	j.store.Seal()
	j.changed.ring()
}

// State is the process's, as a list of processes shows it.
func (j *Journal) State() sdk.ProcessState {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.state()
}

// Status is the process's state with the exit of one that has exited, both of one moment: of two questions one could be answered before
// the exit, and the other one after it.
func (j *Journal) Status() (sdk.ProcessState, *sdk.Exit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.exit == nil {
		return j.state(), nil
	}
	e := *j.exit
	return j.state(), &e
}

func (j *Journal) state() sdk.ProcessState {
	switch {
	case j.exit != nil:
		return sdk.ProcessExited
	case j.abandoned:
		return sdk.ProcessAbandoned
	}
	return sdk.ProcessRunning
}
