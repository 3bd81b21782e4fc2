// Package source reads what callers give to a call: a reader whose Read may block for ever, and which must not be read once the call
// is over.
package source

import (
	"io"
	"sync"
)

// Source reads a caller's reader for a call. A Read that blocks cannot be taken back: the call may end without it, and its
// result is thrown away. No Read begins after the call has ended.
type Source struct {
	r    io.Reader
	done chan struct{}

	mu      sync.Mutex
	reading bool
	over    bool
	err     error // the reader's own, other than io.EOF
}

// New runs consume on a goroutine of its own. consume gets its bytes by Read.
func New(r io.Reader, consume func(*Source)) *Source {
	s := &Source{r: r, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		consume(s)
	}()
	return s
}

// Read reads the caller's reader, or tells io.ErrClosedPipe once the call is over.
func (s *Source) Read(p []byte) (int, error) {
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
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// Failed gives the reader's own error.
func (s *Source) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stop ends the source. What the consumer waits for, other than the reader, must have been ended before. It returns when
// the consumer has, or is left alone with a blocked Read.
func (s *Source) Stop() {
	s.mu.Lock()
	s.over = true
	reading := s.reading
	s.mu.Unlock()
	if !reading {
		<-s.done
	}
}
