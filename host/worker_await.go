package host

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// acquire gives the connection, once there is one. It ends with ctx, with a WorkerGoneError, or with the reason why the
// worker will not be back by itself.
func (w *worker) acquire(ctx context.Context) (sdk.Worker, error) {
	return w.await(ctx, false)
}

// acquirePatiently is acquire for what runs already: that the worker will not be back by itself is no reason to give up before its
// time, since an operator may bring it back. A worker that has been without its containers for that long is gone for them.
func (w *worker) acquirePatiently(ctx context.Context) (sdk.Worker, error) {
	conn, err := w.await(ctx, true)
	if err == nil {
		err = w.containersGone()
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (w *worker) await(ctx context.Context, patient bool) (sdk.Worker, error) {
	if w.connection() == nil {
		defer listenFor(ctx, w, w.absence).end(true)
	}
	for {
		w.mu.Lock()
		conn, up, why, dead, since := w.conn, w.up, w.why, w.dead, w.since
		w.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		if dead != nil && !patient {
			return nil, dead
		}
		patience := time.NewTimer(time.Until(since.Add(w.goneIn())))
		select {
		case <-up:
			patience.Stop()
		case <-ctx.Done():
			patience.Stop()
			return nil, ctx.Err()
		case <-w.closed:
			patience.Stop()
			return nil, ErrClosed
		case <-patience.C:
			w.mu.Lock()
			away := w.conn == nil && !w.elsewhere && w.since.Equal(since)
			w.mu.Unlock()
			if away {
				return nil, &WorkerGoneError{Worker: w.name, Away: time.Since(since), Cause: why}
			}
		}
	}
}

// absence says that the worker is away, and why.
func (w *worker) absence() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == nil {
		return "it is away"
	}
	return "it is away: " + w.whyText()
}
