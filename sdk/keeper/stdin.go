package keeper

import (
	"context"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

const (
	// stdinBytes is what the keeper of a process takes ahead of it: as much as a pipe on Linux.
	stdinBytes = 64 << 10
	// feedBytes is what a follower reads of its source at a time, so all that it may hold and the keeper has not taken.
	feedBytes = 32 << 10
)

var _ [sdk.MaxStdinAhead - feedBytes]struct{} // rule 7

// stdin is the pipe between a journal's followers and its process.
type stdin struct {
	buffer []byte // taken, and not read by the process yet
	taken  int64  // in all
	closed bool   // its end was said
}

func (s *stdin) close() { s.buffer, s.closed = nil, true }

// ReadStdin is the process's side: it waits for bytes or the end, which is io.EOF, as long as ctx lets it. With no follower it
// just waits.
func (j *Journal) ReadStdin(ctx context.Context, p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		if len(j.stdin.buffer) > 0 || len(p) == 0 {
			n := copy(p, j.stdin.buffer)
			if j.stdin.buffer = j.stdin.buffer[n:]; len(j.stdin.buffer) == 0 {
				j.stdin.buffer = nil
			}
			j.changed.ring()
			return n, nil
		}
		if j.stdin.closed {
			return 0, io.EOF
		}
		if err := j.changed.wait(ctx, &j.mu); err != nil {
			return 0, err
		}
	}
}

// CloseStdin says that the process reads no more: what it has not read is dropped, nothing is taken from now on, and the
// follower goes on without.
func (j *Journal) CloseStdin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stdin.close()
	j.changed.ring()
}

// feed moves a follower's source into the process until either ends or the follower is no longer the one.
func (j *Journal) feed(f *follower, source io.Reader) {
	buf := make([]byte, feedBytes)
	for j.takeStdin(f, nil, false) {
		n, err := source.Read(buf)
		end := err == io.EOF // only the very value says the end
		if !j.takeStdin(f, buf[:n], end) {
			return
		}
		if err != nil {
			j.failStdin(f, err)
			return
		}
	}
}

// takeStdin takes all of p, and the end, as there is room, and tells whether the follower may go on to feed. It waits without
// a context: whatever detaches the follower or closes stdin rings.
func (j *Journal) takeStdin(f *follower, p []byte, end bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		if j.follower != f || j.stdin.closed {
			return false // superseded, or nobody reads
		}
		n := min(len(p), stdinBytes-len(j.stdin.buffer))
		j.stdin.buffer = append(j.stdin.buffer, p[:n]...)
		j.stdin.taken += int64(n)
		p = p[n:]
		j.stdin.closed = end && len(p) == 0
		if n > 0 || j.stdin.closed {
			j.changed.ring()
		}
		if len(p) == 0 {
			return !j.stdin.closed
		}
		_ = j.changed.wait(context.Background(), &j.mu)
	}
}

// failStdin ends the follower with the error of its own source and closes nothing.
func (j *Journal) failStdin(f *follower, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f.err = err
	j.changed.ring()
}
