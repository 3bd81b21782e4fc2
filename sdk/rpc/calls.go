package rpc

import (
	"context"
	"sync"
)

// calls counts what a server has in hand, so that it can end in order.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed once closed and n is 0
}

func newCalls() *calls { return &calls{idle: make(chan struct{})} }

// enter is false once the server takes no more.
func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	return true
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.closed && c.n == 0 {
		close(c.idle)
	}
}

// close takes no more calls. Idempotent.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if c.n == 0 {
		close(c.idle)
	}
}

// wait waits for the last call to end; it is false if ctx ends first.
func (c *calls) wait(ctx context.Context) bool {
	select {
	case <-c.idle:
		return true
	case <-ctx.Done():
		return false
	}
}
