package host

import (
	"context"
	"sync"
)

// flights are pieces of work that several callers wait for together, by key. Each runs under a context of its own, which
// ends when the last caller has left; who comes after that begins anew once the old work has ended. Whatever is told of the work all who wait
// for it hear, whoever began it: its context's hearer is theirs.
type flights[T any] struct {
	closing context.Context    // ends all work
	spawn   func(func()) error // runs it, unless the host is closed

	mu sync.Mutex
	by map[string]*flight[T]
}

type flight[T any] struct {
	heard   audience // all who wait for it
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
	return fs.follow(ctx, key, nil, func(ctx context.Context, _ func(StreamProgress)) (T, error) { return work(ctx) })
}

// follow is do of work that tells how far it is. Progress may be nil; it is called no more once follow has returned.
func (fs *flights[T]) follow(
	ctx context.Context, key string, progress func(StreamProgress), work func(ctx context.Context, tell func(StreamProgress)) (T, error),
) (T, error) {
	var zero T
	f, leave, err := fs.join(ctx, key, progress, work)
	if err != nil {
		return zero, err
	}
	defer leave()
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

func (fs *flights[T]) join(
	ctx context.Context, key string, progress func(StreamProgress), work func(context.Context, func(StreamProgress)) (T, error),
) (f *flight[T], leave func(), err error) {
	for {
		fs.mu.Lock()
		f := fs.by[key]
		if f == nil {
			f, leave, err := fs.start(ctx, key, progress, work)
			fs.mu.Unlock()
			return f, leave, err
		}
		if f.live() {
			f.waiting++
			fs.mu.Unlock()
			return f, f.heard.join(ctx, progress), nil
		}
		fs.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// detach leaves the work under a key, if there is any, to those who wait for it. Who comes from now on begins anew at once.
func (fs *flights[T]) detach(key string) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.by, key)
}

// underWay is the work under a key; nil: there is none.
func (fs *flights[T]) underWay(key string) *flight[T] {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.by[key]
}

// stop cancels the work under a key, if it is only (nil: whichever it is), and waits until nothing of it goes on. Who waited for it is told why, unless it was
// done all the same. It tells whether there was any, and gives the error with which that ended itself. Who comes meanwhile begins anew after it.
func (fs *flights[T]) stop(ctx context.Context, key string, only *flight[T], why error) (was bool, ended error, err error) {
	fs.mu.Lock()
	f := fs.by[key]
	if f == nil || only != nil && f != only {
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
func (fs *flights[T]) start(
	ctx context.Context, key string, progress func(StreamProgress), work func(context.Context, func(StreamProgress)) (T, error),
) (*flight[T], func(), error) {
	wctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[T]{done: make(chan struct{}), cancel: cancel, waiting: 1}
	wctx = context.WithValue(wctx, silenceKey{}, &f.heard)
	leave := f.heard.join(ctx, progress) // who begins it hears all
	if fs.by == nil {
		fs.by = make(map[string]*flight[T])
	}
	err := fs.spawn(func() {
		defer cancel()
		defer context.AfterFunc(fs.closing, cancel)()
		f.value, f.own = work(wctx, f.heard.tell)
		fs.mu.Lock()
		f.err = f.own
		if f.err != nil && f.why != nil {
			f.err = f.why
		}
		if fs.by[key] == f {
			delete(fs.by, key)
		}
		fs.mu.Unlock()
		close(f.done)
	})
	if err != nil {
		cancel()
		return nil, nil, err
	}
	fs.by[key] = f
	return f, leave, nil
}
