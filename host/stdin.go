package host

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// stdinSource is a reader that can be read again from where the keeper of a process is: it keeps what was read and not yet taken,
// at most sdk.MaxStdinAhead bytes.
type stdinSource struct {
	src io.Reader

	mu   sync.Mutex
	base int64 // position of buf's first byte: all before it was taken
	done int64 // all before it was taken; ahead of what src was read to if an earlier host fed the process
	buf  []byte
	err  error // of src, after buf
	busy chan struct{}
}

// stdinError marks a failure of a client's stdin.
type stdinError struct{ error }

func (e stdinError) Unwrap() error { return e.error }

func newStdinSource(src io.Reader) *stdinSource {
	return &stdinSource{src: src, busy: make(chan struct{}, 1)}
}

// taken lets go of what the keeper has.
func (s *stdinSource) taken(total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = max(s.done, total)
	s.letGo()
}

func (s *stdinSource) letGo() {
	if n := min(s.done-s.base, int64(len(s.buf))); n > 0 {
		s.buf = s.buf[n:]
		s.base += n
	}
}

// from gives a reader that begins at a position. It ends with ctx; src itself may stay blocked in a read, which the next reader then
// waits for.
func (s *stdinSource) from(ctx context.Context, at int64) (io.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < s.base {
		return nil, sdk.NewInternal(nil, "stdin is taken up to %d, but only what comes after %d is kept", at, s.base)
	}
	return &stdinReader{s: s, ctx: ctx, at: at}, nil
}

type stdinReader struct {
	s   *stdinSource
	ctx context.Context
	at  int64
}

func (r *stdinReader) Read(p []byte) (int, error) {
	for {
		r.s.mu.Lock()
		have := r.s.buf[min(max(r.at-r.s.base, 0), int64(len(r.s.buf))):]
		if len(have) > 0 {
			n := copy(p, have)
			r.at += int64(n)
			r.s.mu.Unlock()
			return n, nil
		}
		err := r.s.err
		r.s.mu.Unlock()
		if err != nil {
			return 0, err
		}
		select {
		case r.s.busy <- struct{}{}: // one reads src at a time
			r.fill()
			<-r.s.busy
		case <-r.ctx.Done():
			return 0, fmt.Errorf("stdin: %w", r.ctx.Err())
		}
	}
}

// fill reads src once, unless an earlier reader's read has brought something meanwhile.
func (r *stdinReader) fill() {
	r.s.mu.Lock()
	more := r.at-r.s.base < int64(len(r.s.buf)) || r.s.err != nil
	r.s.mu.Unlock()
	if more {
		return
	}
	chunk := make([]byte, 32<<10)
	n, err := r.s.src.Read(chunk)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.buf = append(r.s.buf, chunk[:n]...)
	r.s.letGo()
	r.s.err = err
	if err != nil && err != io.EOF {
		r.s.err = stdinError{err}
	}
}
