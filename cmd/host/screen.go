package main

import (
	"sync"
)

// screen is where text for a person goes: whole pieces on stdout and stderr, and on a terminal a last line that tells what goes on.
type screen struct {
	mu       sync.Mutex
	out, err *outlet
	status   string
}

// write writes a piece. The outlet keeps its failure, and ends the command by it. What goes to a file or another program waits for nobody but that, and nobody
// waits for it.
func (s *screen) write(to *outlet, piece []byte) {
	if to == s.out && !to.term {
		_, _ = to.Write(piece)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	_, _ = to.Write(piece)
}

// setStatus replaces the last line.
func (s *screen) setStatus(text string) {
	if !s.err.term {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	if runes := []rune(text); len(runes) >= s.err.width() {
		text = string(runes[:s.err.width()-1])
	}
	s.status = text
	_, _ = s.err.Write([]byte(text))
}

func (s *screen) clear() {
	if s.status == "" {
		return
	}
	s.status = ""
	_, _ = s.err.Write([]byte("\r\x1b[K"))
}
