package spool

import (
	"math"
	"sync"
)

// stream is what the Writer and the Readers of one process share, as long as
// there are any.
type stream struct {
	refs   int  // the Spool's
	writer bool // the Spool's: a Writer is open

	mu      sync.Mutex
	end     int64 // of what is whole in the file; -1 until a Writer has looked
	version int   // counts the changes
	changed chan struct{}
	ended   error // why nothing will change any more
}

func newStream() *stream { return &stream{end: -1} }

// publish makes the file up to end known to the readers.
func (s *stream) publish(end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	s.wake()
}

// stop tells the readers that nothing more will come.
func (s *stream) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	s.wake()
}

func (s *stream) wake() {
	s.version++
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// limit says how far may be read, whether a Writer vouches for it, and as of
// which version.
func (s *stream) limit() (end int64, known bool, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end < 0 {
		return math.MaxInt64, false, s.version
	}
	return s.end, true, s.version
}

// wait returns a channel that is closed by the first change after version, or
// why there will be none.
func (s *stream) wait(version int) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != version {
		done := make(chan struct{})
		close(done)
		return done, nil
	}
	if s.ended != nil {
		return nil, s.ended
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed, nil
}
