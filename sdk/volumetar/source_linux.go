package volumetar

import (
	"context"
	"io"
)

// source reads ahead in a goroutine of its own, so that a reader which hangs cannot hold up a call whose context has ended. It keeps the
// reader's error as it was, and counts the zeros at the end of what was read, to tell an end marker from a stream that breaks off.
type source struct {
	ctx   context.Context
	full  chan piece
	free  chan []byte
	stop  chan struct{}
	ended chan struct{}

	now   piece
	rest  []byte // of now, not yet given away
	err   error  // the reader's own, or the context's
	zeros int
}

type piece struct {
	buf []byte
	n   int
	err error
}

func newSource(ctx context.Context, r io.Reader) *source {
	s := &source{ctx: ctx, full: make(chan piece), free: make(chan []byte, 2), stop: make(chan struct{}), ended: make(chan struct{})}
	for range cap(s.free) {
		s.free <- make([]byte, bufSize)
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
			case s.full <- piece{buf, n, err}:
			}
			if err != nil {
				return
			}
		}
	}
}

// close ends the goroutine. It waits for it, unless that may be blocked in a Read whose result nobody wants.
func (s *source) close() {
	close(s.stop)
	if s.now.err != nil {
		<-s.ended
	}
}

func (s *source) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	for s.err == nil && len(s.rest) == 0 {
		if s.now.err == io.EOF {
			return 0, io.EOF
		}
		s.err = s.now.err
		if s.err == nil {
			s.next()
		}
	}
	if s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	i := n
	for i > 0 && p[i-1] == 0 {
		i--
	}
	if i > 0 {
		s.zeros = 0
	}
	s.zeros += n - i
	return n, nil
}

func (s *source) next() {
	if s.now.buf != nil {
		s.free <- s.now.buf
		s.now.buf = nil
	}
	select {
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
	case s.now = <-s.full:
		s.rest = s.now.buf[:s.now.n]
	}
}
