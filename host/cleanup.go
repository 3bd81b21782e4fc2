package host

import (
	"context"
	"sync"
	"time"
)

// What is undone after a failure or an interrupt is bounded here, whatever the contexts of those who asked for the work have come to.

// cleanupTime bounds what is undone after a failure. What does not succeed in it stays in the store and is settled when
// its worker is back.
const cleanupTime = 30 * time.Second

// hurryTime is what is left of all such times once somebody hurries.
const hurryTime = time.Second

// cleanup gives a context for undoing things; see [Host.undoing].
func (h *Host) cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return h.undoing(ctx, cleanupTime)
}

// undoing gives a context for what has to be done though ctx may have ended, of at most so long. It ends sooner where somebody hurries, and when the host closes: the
// next one on the same state directory settles what is left.
func (h *Host) undoing(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, release := h.outliving(ctx)
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, func() {
		cancel()
		release()
	}
}

// outliving gives a context for what has to be done though ctx may have ended, however long it takes. It ends where somebody hurries, and when the host closes.
func (h *Host) outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	hurry, hurried := ctx.Value(hurryKey{}).(context.Context)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stops := []func() bool{context.AfterFunc(h.ctx, cancel)}
	if hurried {
		stops = append(stops, context.AfterFunc(hurry, cancel))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

type hurryKey struct{}

// hurried gives a context under which all that is undone ends within the time that is given once ctx has ended, and a moment after kill is closed. Release ends the watch.
func hurried(ctx context.Context, within time.Duration, kill <-chan struct{}) (_ context.Context, release func()) {
	hurry, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		ended := ctx.Done()
		var late <-chan time.Time
		for {
			select {
			case <-ended:
				ended, late = nil, time.After(within)
			case <-kill:
				ended, kill, late = nil, nil, time.After(hurryTime)
			case <-late:
				end()
				return
			case <-over:
				return
			}
		}
	})
	return context.WithValue(ctx, hurryKey{}, hurry), func() {
		close(over)
		watch.Wait()
		end()
	}
}
