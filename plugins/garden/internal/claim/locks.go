package claim

import (
	"context"
	"sync"
)

// locks are one lock for each name that is in use. Waiting ends with the context. A name that nobody holds or waits for takes no memory.
type locks struct {
	mu    sync.Mutex
	names map[string]*lock
}

type lock struct {
	users     int // who hold it or wait
	readers   int
	writer    bool
	writers   int // who wait to be the writer; new readers stand back
	changed   chan struct{}
	ending    error // why streams end at once; nil: they do not
	streams   map[int]context.CancelCauseFunc
	streamIDs int
}

func (l *locks) init() { l.names = make(map[string]*lock) }

// exclusive waits until nobody else holds the name.
func (l *locks) exclusive(ctx context.Context, name string) (unlock func(), err error) {
	return l.take(ctx, name, true)
}

// shared waits until nobody holds the name exclusively.
func (l *locks) shared(ctx context.Context, name string) (unlock func(), err error) {
	return l.take(ctx, name, false)
}

// both holds name exclusively and, unless it is empty, parent shared. They are taken in one order, so that two calls do not wait for each other.
func (l *locks) both(ctx context.Context, name, parent string) (unlock func(), err error) {
	if parent == "" {
		return l.exclusive(ctx, name)
	}
	first, second := l.exclusive, l.shared
	if parent < name {
		name, parent, first, second = parent, name, l.shared, l.exclusive
	}
	one, err := first(ctx, name)
	if err != nil {
		return nil, err
	}
	two, err := second(ctx, parent)
	if err != nil {
		one()
		return nil, err
	}
	return func() { two(); one() }, nil
}

func (l *locks) take(ctx context.Context, name string, alone bool) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.use(name)
	if alone {
		k.writers++
		defer func() { k.writers-- }()
	}
	for k.writer || alone && k.readers > 0 || !alone && k.writers > 0 {
		changed := k.changed
		l.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = ctx.Err()
		}
		l.mu.Lock()
		if err != nil {
			if alone {
				k.wake() // readers stood back for this one; they see the smaller count once the mutex is free
			}
			l.leave(name, k)
			return nil, err
		}
	}
	if alone {
		k.writer = true
	} else {
		k.readers++
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if alone {
			k.writer = false
		} else {
			k.readers--
		}
		k.wake()
		l.leave(name, k)
	}), nil
}

// use finds the lock of a name and counts its new user.
func (l *locks) use(name string) *lock {
	k := l.names[name]
	if k == nil {
		k = &lock{changed: make(chan struct{})}
		l.names[name] = k
	}
	k.users++
	return k
}

func (l *locks) leave(name string, k *lock) {
	if k.users--; k.users == 0 {
		delete(l.names, name)
	}
}

func (k *lock) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// stream gives a context that destroy ends, for as long as the name is held.
func (l *locks) stream(ctx context.Context, name string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.use(name)
	if k.streams == nil {
		k.streams = make(map[int]context.CancelCauseFunc)
	}
	k.streamIDs++
	id := k.streamIDs
	k.streams[id] = cancel
	if k.ending != nil {
		cancel(k.ending)
	}
	return ctx, func() {
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(k.streams, id)
		l.leave(name, k)
	}
}

// destroy is exclusive that ends the streams of a name, with a cause, those that begin meanwhile, too.
func (l *locks) destroy(ctx context.Context, name string, cause error) (unlock func(), err error) {
	l.mu.Lock()
	k := l.use(name)
	k.ending = cause
	for _, cancel := range k.streams {
		cancel(cause)
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		k.ending = nil
		l.leave(name, k)
	}()
	return l.exclusive(ctx, name)
}
