package keeper

import (
	"context"
	"sync"
)

// bell wakes everybody who waits for a change of what a mutex guards, as a sync.Cond does, but with contexts. The mutex
// guards the bell too.
type bell struct {
	rung chan struct{} // closed by the next ring; nil while nobody waits
}

// ring wakes all who wait.
func (b *bell) ring() {
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// wait releases the mutex until the bell rings or ctx ends, and returns ctx's error.
func (b *bell) wait(ctx context.Context, mu *sync.Mutex) error {
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	rung := b.rung
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-rung:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
