// Package keylock locks names among the goroutines of one process: a plugin's calls on one container must not meet, those on two must not wait.
//
// Locks across processes are package shelf's.
package keylock

import (
	"context"
	"sync"
)

// Locks are locks by name. The zero value is usable; a name that nobody holds or waits for takes no memory.
type Locks struct {
	mu    sync.Mutex
	names map[string]*lock
}

type lock struct {
	held  chan struct{} // has a token while it is locked
	users int           // who hold it or wait
}

// Lock waits until nobody else holds the name, no longer than ctx, whose error it then gives. The caller calls unlock once.
func (l *Locks) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.names == nil {
		l.names = make(map[string]*lock)
	}
	k := l.names[name]
	if k == nil {
		k = &lock{held: make(chan struct{}, 1)}
		l.names[name] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; l.leave(name, k) }, nil
	case <-ctx.Done():
		l.leave(name, k)
		return nil, ctx.Err()
	}
}

func (l *Locks) leave(name string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.names, name)
	}
}
