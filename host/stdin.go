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
	buf  []byte
	err  error // of src, after buf
	busy chan struct{}
}

func newStdinSource(src io.Reader) *stdinSource {
	return &stdinSource{src: src, busy: make(chan struct{}, 1)}
}

// taken lets go of what the keeper has.
func (s *stdinSource) taken(total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := total - s.base; n > 0 && n <= int64(len(s.buf)) {
		s.buf = s.buf[n:]
		s.base = total
	}
}

// from gives a reader that begins at a position. It ends with ctx; src itself may stay blocked in a read, which the next reader then
// waits for.
func (s *stdinSource) from(ctx context.Context, at int64) (io.Reader, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at < s.base || at > s.base+int64(len(s.buf)) {
		return nil, sdk.NewInternal(nil, "stdin is taken up to %d, but only %d to %d are kept", at, s.base, s.base+int64(len(s.buf)))
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
	r.s.err = err
}
