package shim

import (
	"io"
	"sync"
)

// source reads a caller's reader for a call. A Read that blocks cannot be taken back: the call may end without it, and its
// result is thrown away. No Read begins after the call has ended.
type source struct {
	r    io.Reader
	done chan struct{}

	mu      sync.Mutex
	reading bool
	over    bool
	err     error // the reader's own, other than io.EOF
}

// newSource runs consume on a goroutine of its own.
func newSource(r io.Reader, consume func(*source)) *source {
	s := &source{r: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		consume(s)
	}()
	return s
}

// Read reads the caller's reader, or tells io.ErrClosedPipe once the call is over.
func (s *source) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return 0, io.ErrClosedPipe
	}
	s.reading = true
	s.mu.Unlock()

	n, err := s.r.Read(p)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if s.over {
		return 0, io.ErrClosedPipe
	}
	if err != nil && err != io.EOF { // only the very value says the end
		s.err = err
	}
	return n, err
}

// failed gives the reader's own error.
func (s *source) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// stop ends it. What consume waits for, other than the reader, must have been ended before. It returns when consume has, or is left
// alone with a blocked Read.
func (s *source) stop() {
	s.mu.Lock()
	s.over = true
	reading := s.reading
	s.mu.Unlock()
	if !reading {
		<-s.done
	}
}

// ahead is the stdin that was read and not taken yet (rule 7). The zero value is at position 0.
type ahead struct {
	bytes []byte
	taken int64 // position of bytes[0]
	sent  int64 // position up to which this relay has got them
	most  int64 // up to which any has
	end   bool  // the source is at its end
	told  bool  // this relay knows
}

func (a *ahead) read() int64 { return a.taken + int64(len(a.bytes)) }

// resume begins on a new relay, whose keeper has taken that much. false: it cannot have.
func (a *ahead) resume(taken int64) bool {
	if !a.take(taken) || taken < a.taken {
		return false
	}
	a.sent, a.told = taken, false
	return true
}

// take drops what was taken. false: nobody can have taken so much.
func (a *ahead) take(total int64) bool {
	if total > a.most {
		return false
	}
	if n := total - a.taken; n > 0 {
		a.bytes, a.taken = a.bytes[n:], total
	}
	return true
}

// next is what to send now, at most n bytes.
func (a *ahead) next(n int) []byte {
	p := a.bytes[a.sent-a.taken:]
	p = p[:min(n, len(p))]
	a.sent += int64(len(p))
	a.most = max(a.most, a.sent)
	return p
}
