package host

import (
	"context"
	"sync"
)

// flights are pieces of work that several callers wait for together, by key. Each runs under a context of its own, which
// ends when the last caller has left; who comes after that begins anew once the old work has ended.
type flights[T any] struct {
	closing context.Context    // ends all work
	spawn   func(func()) error // runs it, unless the host is closed

	mu sync.Mutex
	by map[string]*flight[T]
}

type flight[T any] struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int   // 0: cancelled
	why     error // it was stopped for; nil: it was not
	value   T
	own     error // of the work
	err     error // as those who wait for it are told
}

// live tells whether others may join it. The lock is held.
func (f *flight[T]) live() bool { return f.waiting > 0 && f.why == nil }

// do runs work under the key, or joins it where it runs already.
func (fs *flights[T]) do(ctx context.Context, key string, work func(context.Context) (T, error)) (T, error) {
	var zero T
	f, err := fs.join(ctx, key, work)
	if err != nil {
		return zero, err
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
	}
	fs.mu.Lock()
	f.waiting--
	last := f.waiting == 0
	fs.mu.Unlock()
	if last {
		f.cancel()
		<-f.done // whoever cancels waits until nothing of it goes on
		if f.err == nil {
			return f.value, nil // it was made after all, and is the caller's to clean up
		}
	}
	return zero, ctx.Err()
}

func (fs *flights[T]) join(ctx context.Context, key string, work func(context.Context) (T, error)) (*flight[T], error) {
	for {
		fs.mu.Lock()
		f := fs.by[key]
		if f == nil {
			f, err := fs.start(ctx, key, work)
			fs.mu.Unlock()
			return f, err
		}
		if f.live() {
			f.waiting++
			fs.mu.Unlock()
			return f, nil
		}
		fs.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// stop cancels the work under a key, and waits until nothing of it goes on. Who waited for it is told why, unless it was done all the same. It tells
// whether there was any, and gives the error with which that ended itself. Who comes meanwhile begins anew after it.
func (fs *flights[T]) stop(ctx context.Context, key string, why error) (was bool, ended error, err error) {
	fs.mu.Lock()
	f := fs.by[key]
	if f == nil {
		fs.mu.Unlock()
		return false, nil, nil
	}
	f.why = why
	fs.mu.Unlock()
	f.cancel()
	select {
	case <-f.done:
		return true, f.own, nil
	case <-ctx.Done():
		return true, nil, ctx.Err()
	}
}

// start begins the work with one who waits for it. The lock is held.
func (fs *flights[T]) start(ctx context.Context, key string, work func(context.Context) (T, error)) (*flight[T], error) {
	wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[T]{done: make(chan struct{}), cancel: cancel, waiting: 1}
	if fs.by == nil {
		fs.by = make(map[string]*flight[T])
	}
	err := fs.spawn(func() {
		defer cancel()
		defer context.AfterFunc(fs.closing, cancel)()
		f.value, f.own = work(wctx)
		fs.mu.Lock()
		f.err = f.own
		if f.err != nil && f.why != nil {
			f.err = f.why
		}
		delete(fs.by, key)
		fs.mu.Unlock()
		close(f.done)
	})
	if err != nil {
		cancel()
		return nil, err
	}
	fs.by[key] = f
	return f, nil
}
