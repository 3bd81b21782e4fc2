package stream_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) {
	if target := os.Getenv(fillerEnv); target != "" {
		filler(target)
		return
	}
	testkit.Main(m)
}

var errBroken = errors.New("broken")

func write(b []byte) func(context.Context, io.Writer) error {
	return func(_ context.Context, w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func discard(_ context.Context, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func sideOf(t *testing.T, err error) stream.Side {
	t.Helper()
	side, ok := errors.AsType[*stream.SideError](err)
	if !ok {
		t.Fatalf("%v (%T) names no side", err, err)
	}
	return side.Side
}

// Whatever the sizes of writes and reads, the same bytes come out.
func TestRelayKeepsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		writes := rapid.SliceOfN(rapid.IntRange(0, 300<<10), 0, 30).Draw(t, "writes")
		reads := rapid.SliceOfN(rapid.IntRange(1, 200<<10), 1, 10).Draw(t, "reads")
		in, out := sha256.New(), sha256.New()
		var sent int64
		stats, err := stream.Relay(context.Background(), func(_ context.Context, w io.Writer) error {
			next := byte(1)
			for _, n := range writes {
				b := make([]byte, n)
				for i := range b {
					next = next*5 + 3
					b[i] = next
				}
				in.Write(b)
				sent += int64(n)
				got, err := w.Write(b)
				if err != nil || got != n {
					return fmt.Errorf("wrote %d of %d: %w", got, n, err)
				}
				clear(b) // w must not keep it
			}
			return nil
		}, func(_ context.Context, r io.Reader) error {
			for i := 0; ; i++ {
				b := make([]byte, reads[i%len(reads)])
				n, err := r.Read(b)
				out.Write(b[:n])
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
			}
		}, stream.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if stats.Bytes != sent || !bytes.Equal(in.Sum(nil), out.Sum(nil)) {
			t.Fatalf("%d bytes of %d came out, sums %x and %x", stats.Bytes, sent, in.Sum(nil), out.Sum(nil))
		}
	})
}

// Small writes come out as large reads: no more than one read in lowWater bytes, and the rest.
func TestRelayGathers(t *testing.T) {
	const total = 4 << 20
	reads := 0
	_, err := stream.Relay(t.Context(), func(_ context.Context, w io.Writer) error {
		for range total / 512 {
			if _, err := w.Write(make([]byte, 512)); err != nil {
				return err
			}
		}
		return nil
	}, func(_ context.Context, r io.Reader) error {
		b := make([]byte, 64<<10)
		for {
			n, err := r.Read(b)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if n > 0 {
				reads++
			}
		}
	}, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if most := 2 * total / (64 << 10); reads > most {
		t.Errorf("%d reads for %d bytes, want at most %d", reads, total, most)
	}
}

// A failing source reaches a reader that waits, as an error and not as EOF, and is the one that is told. A reader that has the error finds the context
// ended with it, however quick it is.
func TestSourceFails(t *testing.T) {
	for range 1000 {
		var seen, cause error
		_, err := stream.Relay(t.Context(), func(_ context.Context, w io.Writer) error {
			if _, err := w.Write([]byte("half")); err != nil {
				return err
			}
			return errBroken
		}, func(ctx context.Context, r io.Reader) error {
			_, seen = io.Copy(io.Discard, r)
			cause = context.Cause(ctx)
			return errors.New("archive: " + seen.Error())
		}, stream.Options{})
		if sideOf(t, err) != stream.Source || !errors.Is(err, errBroken) || !errors.Is(seen, errBroken) || !errors.Is(cause, errBroken) {
			t.Fatalf("got %v, the destination read %v, and its context ended by %v", err, seen, cause)
		}
	}
}

// A failing destination reaches a writer that waits for room.
func TestDestinationFails(t *testing.T) {
	var seen error
	_, err := stream.Relay(t.Context(), func(ctx context.Context, w io.Writer) error {
		_, seen = w.Write(make([]byte, 8<<20))
		<-ctx.Done()
		return seen
	}, func(context.Context, io.Reader) error { return errBroken }, stream.Options{})
	if sideOf(t, err) != stream.Destination || !errors.Is(err, errBroken) || !errors.Is(seen, errBroken) {
		t.Errorf("got %v, and the source saw %v", err, seen)
	}
}

func TestDestinationStopsEarly(t *testing.T) {
	for name, dst := range map[string]func(context.Context, io.Reader) error{
		"nothing read": func(context.Context, io.Reader) error { return nil },
		"all but EOF": func(_ context.Context, r io.Reader) error {
			_, err := io.ReadFull(r, make([]byte, 4))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stream.Relay(t.Context(), write([]byte("four")), dst, stream.Options{})
			if sideOf(t, err) != stream.Destination || !errors.Is(err, stream.ErrNotRead) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCancelReachesBothEnds(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		read bool
	}{"waiting for room": {8 << 20, false}, "waiting for bytes": {0, true}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			began := make(chan struct{})
			var both [2]error
			done := make(chan error)
			go func() {
				_, err := stream.Relay(ctx, func(ctx context.Context, w io.Writer) error {
					_, both[0] = w.Write(make([]byte, c.size))
					<-ctx.Done()
					return both[0]
				}, func(ctx context.Context, r io.Reader) error {
					close(began)
					if c.read {
						_, both[1] = r.Read(make([]byte, 1))
						return both[1]
					}
					<-ctx.Done()
					_, both[1] = io.Copy(io.Discard, r)
					return both[1]
				}, stream.Options{})
				done <- err
			}()
			<-began
			cancel(errBroken)
			err := <-done
			if !errors.Is(err, context.Canceled) || !errors.Is(err, errBroken) {
				t.Errorf("got %v, want canceled with its cause", err)
			}
			if _, ok := errors.AsType[*stream.SideError](err); ok {
				t.Errorf("%v blames a side", err)
			}
			if !errors.Is(both[1], context.Canceled) && !errors.Is(both[1], errBroken) || c.size > 0 && !errors.Is(both[0], errBroken) {
				t.Errorf("the sides saw %v", both)
			}
		})
	}
	t.Run("sides that see it first", func(t *testing.T) {
		for range 300 {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := stream.Relay(ctx, func(ctx context.Context, _ io.Writer) error {
				cancel()
				return ctx.Err()
			}, func(ctx context.Context, _ io.Reader) error {
				<-ctx.Done()
				return ctx.Err()
			}, stream.Options{})
			if err != context.Canceled {
				t.Fatalf("got %v (%T), want it unchanged", err, err)
			}
		}
	})
	t.Run("before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		never := func(context.Context, io.Writer) error { t.Error("the source began"); return nil }
		if _, err := stream.Relay(ctx, never, discard, stream.Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestMaxBytes(t *testing.T) {
	if _, err := stream.Relay(t.Context(), write(make([]byte, 1<<20)), discard, stream.Options{MaxBytes: 1 << 20}); err != nil {
		t.Errorf("exactly as many as allowed: %v", err)
	}
	// Also a source that overlooks the error has failed.
	deaf := func(_ context.Context, w io.Writer) error {
		_, _ = w.Write(make([]byte, 1<<20+1))
		return nil
	}
	stats, err := stream.Relay(t.Context(), deaf, discard, stream.Options{MaxBytes: 1 << 20})
	if sideOf(t, err) != stream.Source || !errors.Is(err, sdk.ReasonTooLarge) || sdk.ClassOf(err) != sdk.Invalid {
		t.Errorf("got %v", err)
	}
	if stats.Bytes > 1<<20 {
		t.Errorf("%d bytes got through", stats.Bytes)
	}
}

func TestIdle(t *testing.T) {
	for name, c := range map[string]struct {
		side stream.Side
		src  func(ctx context.Context, w io.Writer) error
		dst  func(ctx context.Context, r io.Reader) error
	}{
		"source": {stream.Source, func(ctx context.Context, w io.Writer) error {
			if err := write([]byte("some"))(ctx, w); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}, discard},
		"destination": {stream.Destination, write(make([]byte, 8<<20)), func(ctx context.Context, r io.Reader) error {
			<-ctx.Done()
			return ctx.Err()
		}},
		"destination, after EOF": {stream.Destination, write([]byte("all")), func(ctx context.Context, r io.Reader) error {
			if err := discard(ctx, r); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := stream.Relay(t.Context(), c.src, c.dst, stream.Options{Idle: time.Minute})
				if sideOf(t, err) != c.side || !errors.Is(err, stream.ErrIdle) || sdk.ClassOf(err) != sdk.Unavailable {
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took < time.Minute || took > 90*time.Second {
					t.Errorf("it took %v to notice", took)
				}
			})
		})
	}
	t.Run("slow is not idle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, err := stream.Relay(t.Context(), func(_ context.Context, w io.Writer) error {
				for range 100 {
					time.Sleep(50 * time.Second)
					if _, err := w.Write([]byte{1}); err != nil {
						return err
					}
				}
				return nil
			}, discard, stream.Options{Idle: time.Minute})
			if err != nil {
				t.Error(err)
			}
		})
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []stream.Stats
		var at []time.Time
		stats, err := stream.Relay(t.Context(), func(_ context.Context, w io.Writer) error {
			for range 1000 {
				time.Sleep(time.Millisecond)
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return err
				}
			}
			return nil
		}, discard, stream.Options{Progress: func(s stream.Stats) {
			got, at = append(got, s), append(at, time.Now())
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < 9 || len(got) > 11 {
			t.Errorf("told %d times in a second", len(got))
		}
		for i := 1; i < len(got)-1; i++ {
			if got[i].Bytes <= got[i-1].Bytes || at[i].Sub(at[i-1]) < 100*time.Millisecond {
				t.Errorf("told %+v after %+v within %v", got[i], got[i-1], at[i].Sub(at[i-1]))
			}
		}
		if last := got[len(got)-1]; last != stats || last.Bytes != 64000<<10 {
			t.Errorf("the last one is %+v, the result %+v", last, stats)
		}
	})
	var told []stream.Stats
	_, err := stream.Relay(t.Context(), func(context.Context, io.Writer) error { return errBroken }, discard,
		stream.Options{Progress: func(s stream.Stats) { told = append(told, s) }})
	if err == nil || len(told) != 1 {
		t.Errorf("after a failure (%v) told %d times, want once", err, len(told))
	}
}

// The pipe is done with when Relay is.
func TestNothingMovesAfterwards(t *testing.T) {
	var w io.Writer
	_, err := stream.Relay(t.Context(), func(_ context.Context, kept io.Writer) error {
		w = kept
		return nil
	}, discard, stream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("late")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a late write: %v", err)
	}
}

// BenchmarkRelay compares with an io.Pipe, first with sides that do nothing, which measures copying within the cache, then with
// sides that each take a checksum, as real ones do: those run side by side only if there is room between them.
func BenchmarkRelay(b *testing.B) {
	const size = 64 << 20
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, sum := range []bool{false, true} {
		for _, piece := range []int{512, 32 << 10, 256 << 10} {
			src := func(_ context.Context, w io.Writer) error {
				buf := make([]byte, piece)
				var crc uint32
				for range size / piece {
					if sum {
						crc = crc32.Update(crc, castagnoli, buf)
					}
					if _, err := w.Write(buf); err != nil {
						return err
					}
				}
				return nil
			}
			dst := func(_ context.Context, r io.Reader) error {
				var w io.Writer = struct{ io.Writer }{io.Discard}
				if sum {
					w = crc32.New(castagnoli)
				}
				_, err := io.CopyBuffer(w, r, make([]byte, 64<<10))
				return err
			}
			pipe := func(context.Context) error {
				r, w := io.Pipe()
				done := make(chan error)
				go func() {
					err := src(b.Context(), w)
					w.CloseWithError(err)
					done <- err
				}()
				return errors.Join(dst(b.Context(), r), <-done)
			}
			relay := func(ctx context.Context) error {
				_, err := stream.Relay(ctx, src, dst, stream.Options{})
				return err
			}
			for name, run := range map[string]func(context.Context) error{"relay": relay, "iopipe": pipe} {
				b.Run(fmt.Sprintf("sum=%t/%d/%s", sum, piece, name), func(b *testing.B) {
					b.SetBytes(size)
					b.ReportAllocs()
					for b.Loop() {
						if err := run(b.Context()); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
