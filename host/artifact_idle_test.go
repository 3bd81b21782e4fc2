package host

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// slow takes a while for each write.
type slow struct{ takes time.Duration }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.takes)
	return len(p), nil
}

// TestIdleSource: a source that writes nothing for too long is ended, whether it has begun or not; one that waits for a slow reader is not.
func TestIdleSource(t *testing.T) {
	const idle = time.Minute
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		to     io.Writer
		writes int
		pause  time.Duration // before each write
		then   func(context.Context) error
		idle   bool
	}{
		"hangs at once":         {io.Discard, 0, 0, hangs, true},
		"hangs in the middle":   {io.Discard, 3, time.Second, hangs, true},
		"hangs at a slow one":   {slow{time.Hour}, 2, time.Second, hangs, true},
		"is slow":               {io.Discard, 9, idle - time.Second, nil, false},
		"waits for a slow one":  {slow{time.Hour}, 5, time.Second, nil, false},
		"fails for a reason":    {io.Discard, 1, 0, func(context.Context) error { return io.ErrUnexpectedEOF }, false},
		"ends at the last byte": {io.Discard, 1, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &counter{w: c.to, idle: idle}
				err := out.unlessIdle(t.Context(), func(ctx context.Context) error {
					for range c.writes {
						time.Sleep(c.pause)
						if _, err := out.Write([]byte("x")); err != nil {
							return err
						}
					}
					if c.then == nil {
						return ctx.Err()
					}
					return c.then(ctx)
				})
				if errors.Is(err, stream.ErrIdle) != c.idle || c.idle && !errors.Is(err, sdk.Unavailable) {
					t.Errorf("%v, want it to be idle: %v", err, c.idle)
				}
				if out.n != int64(c.writes) || c.then == nil && err != nil {
					t.Errorf("%d bytes, %v", out.n, err)
				}
			})
		})
	}
}

// TestSilentOutput: whoever waits for a run hears that a worker does not give an output, and which it is.
func TestSilentOutput(t *testing.T) {
	t.Parallel()
	told := make(chan struct{})
	o := &hooked{Runtime: newMemory(t, "m"), on: map[string]func(int, func() error) error{"stream-out": func(_ int, real func() error) error {
		select {
		case <-told:
		case <-t.Context().Done():
		}
		return real()
	}}}
	h := openHost(t, o, Options{}, "m")
	tell := sync.OnceFunc(func() { close(told) })
	res, err := h.Run(testkit.Context(t), RunRequest{
		ID: "r", Outputs: map[string]string{"o": filepath.Join(t.TempDir(), "o")},
		Job: parseJob(t, `job "j" {
	step "s" {
		outputs = ["o"]
		run {
			path = "true"
		}
	}
	output "o" { from = step.s.o }
}`),
		Events: func(e Event) {
			if e.Kind == EventWaiting && e.Step == "" && e.Worker == "m" && e.Message == "for worker m: read run/r/s/o" {
				tell()
			}
		},
	})
	if err != nil || res.Outputs["o"] == "" {
		t.Errorf("%+v, %v", res, err)
	}
}
