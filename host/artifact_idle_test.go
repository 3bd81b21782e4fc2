package host

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
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

// stopping gives what it has, then nothing until it is ended.
type stopping struct {
	data  io.Reader
	ended chan struct{}
}

func (s *stopping) Read(p []byte) (int, error) {
	if n, err := s.data.Read(p); err == nil {
		return n, nil
	}
	<-s.ended
	return 0, io.ErrUnexpectedEOF
}

// TestNothingIsReadForNobody: who gave up an upload can go on reading where it has come to.
func TestNothingIsReadForNobody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	of := strings.NewReader("kept")
	r := &leavingReader{ctx: ctx, r: of}
	if n, err := r.Read(make([]byte, 8)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if of.Len() != 4 {
		t.Errorf("%d bytes are left", of.Len())
	}
}

// TestUploadThatStops: an upload of which nothing comes any more is given up, and others have its room; who says so waits for ever.
func TestUploadThatStops(t *testing.T) {
	testkit.Bubble(t, func(t testing.TB) {
		const bytes = 200 << 10
		cfg := testConfig("m")
		cfg.Timing.WorkerGone = time.Minute
		h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": newMemory(t, "m")}, Blobs: BlobLimits{Total: 300 << 10}})
		content := string(archiveOf(t, "", map[string]string{"f": strings.Repeat("x", bytes)}))
		begin := func(name string, idle time.Duration) (*stopping, chan error) {
			r, failed := &stopping{strings.NewReader(content[:bytes]), make(chan struct{})}, make(chan error, 1)
			go func() {
				_, err := h.Upload(t.Context(), Upload{Name: name, Idle: idle}, r)
				failed <- err
			}()
			testkit.Until(t, "it has stopped", func() bool { return h.blobs.lacks(300<<10) >= bytes-64<<10 })
			return r, failed
		}
		other := func() error {
			_, err := h.Upload(t.Context(), Upload{Name: "other"}, strings.NewReader(content))
			return err
		}
		r, failed := begin("stops", 0)
		if err := other(); !errors.Is(err, sdk.Exhausted) {
			t.Errorf("while there is no room: %v", err)
		}
		if err := <-failed; !errors.Is(err, stream.ErrIdle) || !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), "send it anew") {
			t.Errorf("the one that stops: %v", err)
		}
		if err := other(); err != nil {
			t.Errorf("once it is given up: %v", err)
		}
		close(r.ended)
		a, err := h.Artifact(t.Context(), "other")
		if err == nil {
			err = h.RemoveArtifact(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		r, failed = begin("waits", -1)
		time.Sleep(10 * cfg.Timing.WorkerGone)
		if len(failed) > 0 {
			t.Errorf("one that may wait for ever: %v", <-failed)
		}
		close(r.ended)
		if err := <-failed; err == nil || errors.Is(err, stream.ErrIdle) {
			t.Errorf("one that is cut: %v", err)
		}
	})
}
