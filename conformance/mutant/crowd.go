package mutant

import (
	"context"
	"sync"
	"time"
)

// patience is how long a mutant waits for what makes its fault show: for what a case does at the same time. It only ends what would wait
// for ever, and is long because a machine may stand still for as long as it likes; no case that does its part waits it out.
const patience = 2 * time.Minute

// crowd lets one in at a time, by key, and refuses who comes meanwhile. The first one of a key is held inside until somebody was refused, so
// that who comes at the same time does meet it, however slow the machine is. It is for cases where others do come.
type crowd struct {
	mu      sync.Mutex
	inside  map[string]bool
	refused map[string]chan struct{} // closed once somebody was
}

func newCrowd() *crowd {
	return &crowd{inside: make(map[string]bool), refused: make(map[string]chan struct{})}
}

// enter tells whether the caller is alone inside; then it has to leave.
func (c *crowd) enter(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused[key] == nil {
		c.refused[key] = make(chan struct{})
	}
	if !c.inside[key] {
		c.inside[key] = true
		return true
	}
	select {
	case <-c.refused[key]:
	default:
		close(c.refused[key])
	}
	return false
}

// leave returns when the next one may enter.
func (c *crowd) leave(ctx context.Context, key string) {
	c.mu.Lock()
	refused := c.refused[key]
	c.mu.Unlock()
	await(ctx, refused)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside[key] = false
}

// await waits for a channel to be closed, or for patience or ctx to end.
func await(ctx context.Context, ch <-chan struct{}) {
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-ch:
	case <-over.C:
	case <-ctx.Done():
	}
}
