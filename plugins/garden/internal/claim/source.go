package claim

import (
	"context"
	"io"
)

// source reads the caller's reader in a goroutine of its own, so that one that hangs cannot hold up a call whose context has ended. It
// keeps the reader's error as it was.
type source struct {
	ctx    context.Context
	pieces chan piece
	free   chan []byte
	stop   chan struct{}
	ended  chan struct{}

	now  piece
	rest []byte // of now, not yet given away
	err  error  // the reader's own, or why ctx ended
}

type piece struct {
	buf []byte
	n   int
	err error
}

func newSource(ctx context.Context, r io.Reader) *source {
	s := &source{ctx: ctx, pieces: make(chan piece), free: make(chan []byte, 2), stop: make(chan struct{}), ended: make(chan struct{})}
	for range cap(s.free) {
		s.free <- make([]byte, 64<<10)
	}
	go s.readAhead(r)
	return s
}

func (s *source) readAhead(r io.Reader) {
	defer close(s.ended)
	for {
		select {
		case <-s.stop:
			return
		case buf := <-s.free:
			n, err := r.Read(buf)
			select {
			case <-s.stop:
				return
			case s.pieces <- piece{buf, n, err}:
			}
			if err != nil {
				return
			}
		}
	}
}

// close ends the goroutine. It waits for it, unless that may be blocked in a Read whose result nobody wants: then it ends with that Read.
func (s *source) close() {
	close(s.stop)
	if s.now.err != nil {
		<-s.ended
	}
}

// Read gives io.EOF at the reader's end. Any other error stays in err.
func (s *source) Read(p []byte) (int, error) {
	if s.err == nil && s.ctx.Err() != nil {
		s.err = context.Cause(s.ctx)
	}
	for s.err == nil && len(s.rest) == 0 {
		switch s.now.err {
		case nil:
			s.next()
		case io.EOF:
			return 0, io.EOF
		default:
			s.err = s.now.err
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *source) next() {
	if s.now.buf != nil {
		s.free <- s.now.buf
		s.now.buf = nil
	}
	select {
	case <-s.ctx.Done():
		s.err = context.Cause(s.ctx)
	case s.now = <-s.pieces:
		s.rest = s.now.buf[:s.now.n]
	}
}
