package keeper

import (
	"context"
	"fmt"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// follower is one call of Follow. The journal's mutex guards it.
type follower struct {
	generation int64
	delivered  sdk.Position // Output was called for all before it
	ackless    bool         // no more acknowledgements will come
	taken      int64        // what Taken was told
	exited     bool         // Exit was called
	err        error        // of the caller's stdin
}

// Follow is Worker.FollowProcess for this journal. Its errors are those of [sdk.Follow], of ctx and of the contract, and
// Unavailable if the records cannot be read at the moment.
func (j *Journal) Follow(ctx context.Context, from sdk.Position, with sdk.Follow) error {
	return j.FollowAs(ctx, As{}, from, with)
}

// As says who follows, for callers between which and the journal a connection can break: a request of theirs may come twice, or after a later one.
type As struct {
	// Name is that of a follower over all its requests. To resume is to follow again only if nobody of another name has followed since.
	Name   string
	Resume bool
	// Caller makes requests in turns, each with a higher number than the one before. One that comes after a later one of the same caller is not the
	// newest. An empty caller's count as they come.
	Caller string
	Turn   int64
}

// FollowAs is Follow by somebody. Where that is not the newest follower it is FailedPrecondition with [sdk.ReasonSuperseded], as it would have
// been had the connection held, and the newest goes on.
func (j *Journal) FollowAs(ctx context.Context, as As, from sdk.Position, with sdk.Follow) error {
	f, opened, err := j.attach(as, from, with)
	if err != nil {
		return err
	}
	if with.Opened != nil {
		if err := with.Opened(opened); err != nil {
			j.detach(f)
			return err
		}
	}
	reader := j.store.Reader()
	var acks sync.WaitGroup
	done := make(chan struct{})
	acks.Go(func() { j.receiveAcks(f, with.Acks, done) })
	if f.generation != 0 {
		go j.feed(f, with.Stdin) // ends by itself after detach; nobody can wait for a Read
	}
	defer func() {
		j.detach(f)
		close(done)
		acks.Wait()
		reader.Close()
	}()
	for {
		tell, err := j.next(ctx, f, reader, with)
		if err != nil || tell == nil {
			return err
		}
		if err := tell(); err != nil {
			return err
		}
	}
}

// older tells whether a request is not newer than the newest one so far.
func (as As) older(newest As) bool {
	return as.Resume && as.Name != newest.Name || as.Caller != "" && as.Caller == newest.Caller && as.Turn < newest.Turn
}

// attach makes a new follower the only one.
func (j *Journal) attach(as As, from sdk.Position, with sdk.Follow) (*follower, sdk.Opened, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest, end := j.store.Bounds()
	switch {
	case j.gone != nil:
		return nil, sdk.Opened{}, j.gone
	case j.newest != nil && as.older(*j.newest):
		return nil, sdk.Opened{}, j.superseded()
	case from < 0 || from > end && !j.found:
		return nil, sdk.Opened{}, sdk.NewInvalid(sdk.ReasonSpec, "process %q: cannot follow from position %d: the journal ends at %d",
			j.process, from, end)
	case from < j.acked:
		return nil, sdk.Opened{}, &sdk.Error{Class: sdk.FailedPrecondition, Kind: sdk.KindProcess, ID: string(j.process),
			Reason: sdk.ReasonOutputGap, Position: oldest,
			Message: fmt.Sprintf("process %q: the output from position %d was acknowledged and dropped; follow from %d", j.process, from, oldest)}
	}
	j.acked = from // whoever follows from a position has all before it
	j.store.Drop(min(from, end))
	f := &follower{delivered: from, taken: j.stdin.taken}
	opened := sdk.Opened{State: j.state(), StdinTaken: j.stdin.taken}
	if with.Stdin != nil {
		j.generations++
		f.generation = j.generations
		opened.StdinGeneration = f.generation
	}
	j.follower, j.newest = f, &as
	j.changed.ring()
	return f, opened, nil
}

func (j *Journal) detach(f *follower) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.follower == f {
		j.follower = nil
	}
	j.changed.ring()
}

func (j *Journal) superseded() error {
	return sdk.NewFailedPrecondition(sdk.ReasonSuperseded, sdk.KindProcess, string(j.process),
		"a newer follower of process %q has taken over", j.process)
}

// next waits for the next thing that the follower must learn and returns what tells it, to be called without the mutex; nil if
// there is nothing more to come.
func (j *Journal) next(ctx context.Context, f *follower, reader Reader, with sdk.Follow) (tell func() error, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		_, end := j.store.Bounds()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case j.gone != nil:
			return nil, j.gone
		case j.follower != f:
			return nil, j.superseded()
		case f.err != nil:
			return nil, f.err
		case f.taken < j.stdin.taken:
			f.taken = j.stdin.taken
			return func() error { return tellTaken(with, f.taken) }, nil
		case f.delivered < end:
			return func() error { return j.tellOutput(f, reader, with) }, nil
		case j.abandoned:
			return nil, sdk.NewFailedPrecondition(sdk.ReasonAbandoned, sdk.KindProcess, string(j.process),
				"process %q was abandoned: nobody is left who could tell how it ended", j.process)
		case j.exit != nil && !f.exited:
			f.exited = true
			exit := *j.exit
			return func() error { return tellExit(with, exit) }, nil
		case f.exited && j.acked >= end:
			return nil, nil // only the exit is left: a tombstone
		case f.exited && f.ackless:
			return nil, nil // nothing can change any more; what was not acknowledged is kept
		}
		if err := j.changed.wait(ctx, &j.mu); err != nil {
			return nil, err
		}
	}
}

// tellOutput reads without the mutex, so that the process goes on writing meanwhile.
func (j *Journal) tellOutput(f *follower, reader Reader, with sdk.Follow) error {
	records, err := reader.Read(f.delivered)
	if err != nil {
		return sdk.NewUnavailable(err, "process %q: read its output from position %d: %v", j.process, f.delivered, err)
	}
	end := records[len(records)-1].End()
	if !j.deliverable(f, end) {
		return nil // next says why; what was read may be the gap that a newer follower's acknowledgement left
	}
	if with.Output != nil {
		if err := with.Output(records); err != nil {
			return err
		}
	}
	if with.Acks == nil {
		j.ack(f, end)
	}
	return nil
}

func (j *Journal) deliverable(f *follower, end sdk.Position) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.follower != f || j.gone != nil {
		return false
	}
	f.delivered = end
	return true
}

func tellTaken(with sdk.Follow, total int64) error {
	if with.Taken != nil {
		with.Taken(total)
	}
	return nil
}

func tellExit(with sdk.Follow, e sdk.Exit) error {
	if with.Exit == nil {
		return nil
	}
	return with.Exit(e)
}

// receiveAcks takes acknowledgements even while a callback runs, which may be the one who sends them.
func (j *Journal) receiveAcks(f *follower, acks <-chan sdk.Position, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case p, ok := <-acks:
			if !ok {
				j.mu.Lock()
				f.ackless = true
				j.changed.ring()
				j.mu.Unlock()
				return
			}
			j.ack(f, p)
		}
	}
}

// ack drops what a follower has stored for good. Those of an older follower, those beyond what was delivered and those of
// less than before do not count.
func (j *Journal) ack(f *follower, p sdk.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.follower != f || p > f.delivered || p <= j.acked {
		return
	}
	j.acked = p
	j.store.Drop(p)
	j.changed.ring()
}
