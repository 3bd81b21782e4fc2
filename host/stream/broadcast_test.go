package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// taker is a destination of a broadcast.
type taker struct {
	ctx   context.Context
	write func(ctx context.Context, r io.Reader) error // nil: keep all in got

	got   bytes.Buffer
	mu    sync.Mutex
	told  []stream.Stats
	stats stream.Stats
	err   error
	ended chan struct{}
}

func (k *taker) target(t *testing.T) stream.Target {
	k.ended = make(chan struct{})
	if k.ctx == nil {
		k.ctx = t.Context()
	}
	if k.write == nil {
		k.write = func(_ context.Context, r io.Reader) error {
			_, err := io.Copy(&k.got, r)
			return err
		}
	}
	return stream.Target{Ctx: k.ctx, Write: k.write,
		Progress: func(s stream.Stats) {
			k.mu.Lock()
			defer k.mu.Unlock()
			select {
			case <-k.ended:
				t.Error("told of progress after the end")
			default:
			}
			k.told = append(k.told, s)
		},
		Ended: func(s stream.Stats, err error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.stats, k.err = s, err
			close(k.ended)
		}}
}

func broadcast(t *testing.T, src func(context.Context, io.Writer) error, opts stream.Options, takers ...*taker) {
	t.Helper()
	var targets []stream.Target
	for _, k := range takers {
		targets = append(targets, k.target(t))
	}
	stream.Broadcast(src, targets, opts)
	for _, k := range takers {
		<-k.ended
	}
}

// All get what one source writes, each whole, at whatever pace; a failure of one of them is that one's alone.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789abcdef"), 100_000) // more than all buffers
	broken, left := errors.New("broken"), errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	slow := &taker{}
	slow.write = func(_ context.Context, r io.Reader) error {
		_, err := io.CopyBuffer(&slow.got, struct{ io.Reader }{r}, make([]byte, 1000))
		return err
	}
	good := []*taker{{}, slow, {}}
	bad := []*taker{
		{write: func(context.Context, io.Reader) error { return broken }},
		{write: func(_ context.Context, r io.Reader) error {
			_, err := io.CopyN(io.Discard, r, 300_000)
			return errors.Join(err, broken)
		}},
		{write: func(context.Context, io.Reader) error { return nil }},
		{ctx: ctx, write: func(ctx context.Context, r io.Reader) error {
			_, err := io.CopyN(io.Discard, r, 300_000)
			cancel(left)
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		}},
	}
	reads := 0
	broadcast(t, func(_ context.Context, w io.Writer) error {
		reads++
		_, err := w.Write(content)
		return err
	}, stream.Options{Idle: time.Hour}, append(append([]*taker{}, bad...), good...)...)
	if reads != 1 {
		t.Errorf("%d reads", reads)
	}
	for i, k := range good {
		if k.err != nil || !bytes.Equal(k.got.Bytes(), content) || k.stats.Bytes != int64(len(content)) {
			t.Errorf("destination %d: %d bytes, %+v, %v", i, k.got.Len(), k.stats, k.err)
		}
	}
	for i, want := range []error{broken, broken, stream.ErrNotRead, left} {
		if !errors.Is(bad[i].err, want) {
			t.Errorf("bad destination %d: %v, want %v", i, bad[i].err, want)
		}
		if side, ok := errors.AsType[*stream.SideError](bad[i].err); i < 3 && (!ok || side.Side != stream.Destination) {
			t.Errorf("bad destination %d: %v", i, bad[i].err)
		}
	}
}

// A source that fails or has too much fails all of them, even one that overlooks it; it is stopped when nobody is left.
func TestBroadcastSource(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		src  func(context.Context, io.Writer) error
		want error
	}{
		"fails": {func(_ context.Context, w io.Writer) error {
			_, err := w.Write(make([]byte, 100))
			return errors.Join(err, broken)
		}, broken},
		"has too much, and overlooks it": {func(_ context.Context, w io.Writer) error {
			_, _ = w.Write(make([]byte, 5000)) // overlooked on purpose
			return nil
		}, sdk.ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			takers := []*taker{{}, {}, {}}
			broadcast(t, c.src, stream.Options{MaxBytes: 1000}, takers...)
			for i, k := range takers {
				side, ok := errors.AsType[*stream.SideError](k.err)
				if !ok || side.Side != stream.Source || !errors.Is(k.err, c.want) {
					t.Errorf("destination %d: %v", i, k.err)
				}
			}
		})
	}
	t.Run("nobody is left", func(t *testing.T) {
		fails := func(context.Context, io.Reader) error { return broken }
		stopped := false
		broadcast(t, func(ctx context.Context, w io.Writer) error {
			<-ctx.Done()
			stopped = true
			return nil
		}, stream.Options{}, &taker{write: fails}, &taker{write: fails})
		if !stopped {
			t.Error("the source was not stopped")
		}
	})
}

// Who holds the others up is left behind; a source that gives nothing ends it for all; a destination that never ends by itself is
// ended.
func TestBroadcastIdle(t *testing.T) {
	t.Parallel()
	stuck := func(ctx context.Context, _ io.Reader) error { <-ctx.Done(); return ctx.Err() }
	content := make([]byte, 3<<20)
	t.Run("one holds up another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			good, bad := &taker{}, &taker{write: stuck}
			broadcast(t, func(_ context.Context, w io.Writer) error { _, err := w.Write(content); return err }, stream.Options{Idle: time.Hour, Lag: 100 * time.Millisecond}, bad, good)
			if good.err != nil || good.got.Len() != len(content) {
				t.Errorf("the good one: %d bytes, %v", good.got.Len(), good.err)
			}
			if !errors.Is(bad.err, stream.ErrLagging) || !errors.Is(bad.err, sdk.Unavailable) {
				t.Errorf("the bad one: %v", bad.err)
			}
		})
	})
	t.Run("alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			bad := &taker{write: stuck}
			broadcast(t, func(_ context.Context, w io.Writer) error { _, err := w.Write(content); return err }, stream.Options{Idle: 200 * time.Millisecond}, bad)
			if side, ok := errors.AsType[*stream.SideError](bad.err); !ok || side.Side != stream.Destination || !errors.Is(bad.err, stream.ErrIdle) {
				t.Error(bad.err)
			}
		})
	})
	t.Run("the source", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			takers := []*taker{{}, {}}
			broadcast(t, func(ctx context.Context, _ io.Writer) error { <-ctx.Done(); return ctx.Err() }, stream.Options{Idle: 200 * time.Millisecond}, takers...)
			for _, k := range takers {
				if side, ok := errors.AsType[*stream.SideError](k.err); !ok || side.Side != stream.Source || !errors.Is(k.err, stream.ErrIdle) {
					t.Error(k.err)
				}
			}
		})
	})
}
