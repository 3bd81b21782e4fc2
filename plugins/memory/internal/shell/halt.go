package shell

import (
	"context"
	"sync"
)

// halt keeps a process from going on between STOP and CONT: its commands begin, and its output is written, after that. The zero value goes on.
type halt struct {
	mu   sync.Mutex
	over chan struct{} // closed when the process goes on; nil: it does
	held []killed      // signals that came meanwhile, and reach it then
}

// take tells whether a signal goes to the process now, and those that do before it.
func (h *halt) take(k killed) []killed {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case k.name == "STOP":
		if h.over == nil {
			h.over = make(chan struct{})
		}
		return nil
	case h.over == nil:
		return []killed{k}
	case k.name != "CONT":
		if len(h.held) < maxHeld {
			h.held = append(h.held, k)
		}
		return nil
	}
	held := append(h.held, k)
	h.held = nil
	return held
}

// maxHeld bounds how many signals wait, as a kernel does.
const maxHeld = 64

// end lets the process go on.
func (h *halt) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		close(h.over)
		h.over = nil
	}
}

// wait waits while the process is halted.
func (h *halt) wait(ctx context.Context) error {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return h.wait(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}
