package memory

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

const (
	// recordBytes is the size to which writes are joined. Small enough to be a fraction of any message.
	recordBytes = 64 << 10
	// joinWithin is how close in time two writes must be to share a record, and with it a time.
	joinWithin = 10 * time.Millisecond
	// batchBytes and batchRecords bound one call of Follow.Output.
	batchBytes   = 256 << 10
	batchRecords = 1024
)

// journal is the record of one process: what it wrote, what it is fed and how it ended (rules 5 to 7 of the contract).
// The process writes and reads through the methods of its near side, one follower at a time drains and feeds it through
// follow. Both sides wait for each other on one bell.
type journal struct {
	process    sdk.ProcessID
	spill      int64
	whenFull   sdk.WhenFull
	maxRecords int // keeps the book-keeping of tiny records in proportion to spill

	mu      sync.Mutex
	changed bell

	// Bytes before acked were acknowledged, those before oldest are no longer there, those before end were written.
	// Always acked <= oldest <= end; what lies between acked and oldest is a gap.
	acked, oldest, end sdk.Position
	records            []sdk.Record // from oldest to end, without holes
	closed             bool         // what is written now is thrown away
	exit               *sdk.Exit
	gone               error // why no follower can have the journal any more

	stdin       stdin
	follower    *follower // the newest one, while its call lasts
	generations int64
}

// follower is one call of follow. The journal's mutex guards it.
type follower struct {
	generation int64
	delivered  sdk.Position // Output was called for all before it
	ackless    bool         // no more acknowledgements will come
	taken      int64        // what Taken was told
	exited     bool         // Exit was called
	err        error        // of the caller's stdin
}

func newJournal(spec sdk.ProcessSpec) *journal {
	spill := spec.Spill
	if spill == 0 {
		spill = sdk.DefaultSpill
	}
	return &journal{
		process:    spec.ID,
		spill:      spill,
		whenFull:   spec.WhenFull,
		maxRecords: int(spill/64) + 1024,
		stdin:      stdin{closed: !spec.Stdin},
	}
}

// write journals p. Under BlockWriter it waits for room, as long as ctx lets it. After the end of the output it takes and
// forgets everything, so that a left-over writer is not harmed.
func (j *journal) write(ctx context.Context, stream sdk.Stream, p []byte) (int, error) {
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
func (j *journal) append(stream sdk.Stream, p []byte) int {
	if j.whenFull == sdk.BlockWriter {
		p = p[:min(int64(len(p)), j.spill-int64(j.end-j.oldest))]
	}
	now := time.Now()
	taken := 0
	for taken < len(p) {
		r := j.joinable(stream, now)
		if r == nil {
			if len(j.records) >= j.maxRecords && !j.makeRoom() {
				break
			}
			j.records = append(j.records, sdk.Record{Position: j.end, Stream: stream, Time: now})
			r = &j.records[len(j.records)-1]
		}
		n := min(len(p)-taken, recordBytes-len(r.Data))
		r.Data = append(r.Data, p[taken:taken+n]...) // never moves bytes that a follower is looking at
		j.end += sdk.Position(n)
		taken += n
		if over := int64(j.end-j.oldest) - j.spill; over > 0 {
			j.drop(j.oldest + sdk.Position(over))
		}
	}
	return taken
}

// joinable is the last record if a write of now may go into it.
func (j *journal) joinable(stream sdk.Stream, now time.Time) *sdk.Record {
	if len(j.records) == 0 {
		return nil
	}
	r := &j.records[len(j.records)-1]
	crowded := len(j.records) > j.maxRecords/2 // then exact times are worth less than the memory
	if r.Stream != stream || len(r.Data) >= recordBytes || now.Sub(r.Time) > joinWithin && !crowded {
		return nil
	}
	return r
}

func (j *journal) makeRoom() bool {
	if j.whenFull == sdk.BlockWriter {
		return false
	}
	j.drop(j.records[0].End())
	return true
}

// drop forgets all before a position.
func (j *journal) drop(to sdk.Position) {
	kept := sort.Search(len(j.records), func(i int) bool { return j.records[i].End() > to })
	clear(j.records[:kept])
	j.records = j.records[kept:]
	if len(j.records) > 0 && j.records[0].Position < to {
		r := &j.records[0]
		r.Data = r.Data[to-r.Position:]
		r.Position = to
	}
	j.oldest = max(j.oldest, to)
}

// closeOutput ends the output: what is written from now on is thrown away.
func (j *journal) closeOutput() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.changed.ring()
}

// finish records the exit, once and for ever.
func (j *journal) finish(e sdk.Exit) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.exit = &e
	j.stdin = stdin{taken: j.stdin.taken, closed: true}
	j.changed.ring()
}

// abort takes the journal from its follower and all later ones, who end with err, and lets go of its memory.
func (j *journal) abort(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone = err
	j.closed = true
	j.records = nil
	j.changed.ring()
}

// exited gives the exit, or nil while the process runs.
func (j *journal) exited() *sdk.Exit {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.exit == nil {
		return nil
	}
	e := *j.exit
	return &e
}

// follow is Worker.FollowProcess for this journal.
func (j *journal) follow(ctx context.Context, from sdk.Position, with sdk.Follow) error {
	f, opened, err := j.attach(from, with)
	if err != nil {
		return err
	}
	if with.Opened != nil {
		if err := with.Opened(opened); err != nil {
			j.detach(f)
			return err
		}
	}
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
	}()
	for {
		tell, err := j.next(ctx, f, with)
		if err != nil || tell == nil {
			return err
		}
		if err := tell(); err != nil {
			return err
		}
	}
}

// attach makes a new follower the only one.
func (j *journal) attach(from sdk.Position, with sdk.Follow) (*follower, sdk.Opened, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.gone != nil:
		return nil, sdk.Opened{}, j.gone
	case from < 0 || from > j.end:
		return nil, sdk.Opened{}, sdk.NewInvalid(sdk.ReasonSpec, "process %q: cannot follow from position %d: the journal ends at %d",
			j.process, from, j.end)
	case from < j.acked:
		return nil, sdk.Opened{}, &sdk.Error{Class: sdk.FailedPrecondition, Kind: sdk.KindProcess, ID: string(j.process),
			Reason: sdk.ReasonOutputGap, Position: j.oldest,
			Message: fmt.Sprintf("process %q: the output from position %d was acknowledged and dropped; follow from %d", j.process, from, j.oldest)}
	}
	j.acked = from // whoever follows from a position has all before it
	j.drop(from)
	f := &follower{delivered: from, taken: j.stdin.taken}
	opened := sdk.Opened{State: sdk.ProcessRunning, Oldest: j.oldest, StdinTaken: j.stdin.taken}
	if j.exit != nil {
		opened.State = sdk.ProcessExited
	}
	if with.Stdin != nil {
		j.generations++
		f.generation = j.generations
		opened.StdinGeneration = f.generation
	}
	j.follower = f
	j.changed.ring()
	return f, opened, nil
}

func (j *journal) detach(f *follower) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.follower == f {
		j.follower = nil
	}
	j.changed.ring()
}

// next waits for the next thing that the follower must learn and returns the callback that tells it, to be called without
// the mutex; nil if there is nothing more to come.
func (j *journal) next(ctx context.Context, f *follower, with sdk.Follow) (tell func() error, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case j.gone != nil:
			return nil, j.gone
		case j.follower != f:
			return nil, sdk.NewFailedPrecondition(sdk.ReasonSuperseded, sdk.KindProcess, string(j.process),
				"a newer follower of process %q has taken over", j.process)
		case f.err != nil:
			return nil, f.err
		case f.taken < j.stdin.taken:
			f.taken = j.stdin.taken
			return func() error { return tellTaken(with, f.taken) }, nil
		case f.delivered < j.end:
			records := j.read(f.delivered)
			f.delivered = records[len(records)-1].End()
			return func() error { return j.tellOutput(f, with, records) }, nil
		case j.exit != nil && !f.exited:
			f.exited = true
			exit := *j.exit
			return func() error { return tellExit(with, exit) }, nil
		case f.exited && j.acked == j.end:
			return nil, nil // only the exit is left: a tombstone
		case f.exited && f.ackless:
			return nil, nil // nothing can change any more; what was not acknowledged is kept
		}
		if err := j.changed.wait(ctx, &j.mu); err != nil {
			return nil, err
		}
	}
}

// read gives a batch of records from a position on, beginning with a gap if the bytes there were dropped.
func (j *journal) read(from sdk.Position) []sdk.Record {
	var batch []sdk.Record
	if from < j.oldest {
		batch = append(batch, sdk.Record{Position: from, Time: time.Now(), GapTo: j.oldest})
		from = j.oldest
	}
	first := sort.Search(len(j.records), func(i int) bool { return j.records[i].End() > from })
	size := 0
	for _, r := range j.records[first:] {
		if skip := from - r.Position; skip > 0 {
			r.Data = r.Data[skip:]
			r.Position = from
		}
		size += len(r.Data)
		if len(batch) > 0 && size > batchBytes || len(batch) == batchRecords {
			break
		}
		batch = append(batch, r)
	}
	return batch
}

func (j *journal) tellOutput(f *follower, with sdk.Follow, records []sdk.Record) error {
	if with.Output != nil {
		if err := with.Output(records); err != nil {
			return err
		}
	}
	if with.Acks == nil {
		j.ack(f, records[len(records)-1].End())
	}
	return nil
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
func (j *journal) receiveAcks(f *follower, acks <-chan sdk.Position, done <-chan struct{}) {
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
func (j *journal) ack(f *follower, p sdk.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.follower != f || p > f.delivered || p <= j.acked {
		return
	}
	j.acked = p
	j.drop(p)
	j.changed.ring()
}
