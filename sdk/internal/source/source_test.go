package source

import (
	"bytes"
	"io"
	"testing"
)

func TestSourceIsNotReadAfterTheCall(t *testing.T) {
	r := bytes.NewReader([]byte("more"))
	on, read := make(chan struct{}), make(chan error, 1)
	s := New(r, func(s *Source) {
		<-on
		_, err := s.Read(make([]byte, 4))
		read <- err
	})
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	close(on)
	s.Stop()
	if err := <-read; err != io.ErrClosedPipe || r.Len() != 4 {
		t.Errorf("got %v, with %d bytes unread", err, r.Len())
	}
}
