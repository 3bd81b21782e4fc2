package host

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// backoff spaces the repetitions of a call.
type backoff struct{ next time.Duration }

// after is the time before the next repetition: a little longer each time, and longer still if err says so.
func (b *backoff) after(err error) time.Duration { return b.within(statusEvery, err) }

// within is after for a time of at most so long.
func (b *backoff) within(most time.Duration, err error) time.Duration {
	b.next = min(max(2*b.next, probeFirst), most)
	if e, ok := errors.AsType[*sdk.Error](err); ok { // a plugin's hint, not its command: neither for ever nor without a pause
		return min(max(e.RetryAfter, b.next), most)
	}
	return b.next
}

// wait waits before the next repetition.
func (b *backoff) wait(ctx context.Context, err error) error {
	select {
	case <-time.After(b.after(err)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
