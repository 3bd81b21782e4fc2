package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestSealFails: what a step has made is not thrown away because its worker fails once, and a step that was started is lost, never "could not be started", where it is.
func TestSealFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		call  string
		err   error
		fails int // the first so many
		want  string
	}{
		{"internal once", "seal", &sdk.Error{Class: sdk.Internal, Message: "a glitch"}, 1, "s=succeeded"},
		{"no room twice", "seal", &sdk.Error{Class: sdk.Exhausted, Message: "no room", RetryAfter: time.Millisecond}, 2, "s=succeeded"},
		{"refused", "seal", &sdk.Error{Class: sdk.FailedPrecondition, Message: "no"}, 1, "s=lost"},
		{"internal on and on", "seal", &sdk.Error{Class: sdk.Internal, Message: "broken"}, 1 << 30, "s=lost"},
		{"not destroyed on and on", "destroy", &sdk.Error{Class: sdk.Internal, Message: "broken"}, 1 << 30, "s=lost"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testkit.Bubble(t, func(t testing.TB) {
				rt := newMemory(t, "m")
				mended := make(chan struct{})
				o := &hooked{Runtime: rt}
				o.on = map[string]func(int, func() error) error{c.call: func(n int, real func() error) error {
					select {
					case <-mended:
					default:
						if n <= c.fails {
							return c.err
						}
					}
					return real()
				}}
				cfg := testConfig("m")
				cfg.Timing.WorkerGone = 300 * time.Millisecond
				if c.want == "s=succeeded" {
					cfg.Timing.WorkerGone = time.Hour
				}
				h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
				told := make(chan Event, 1000)
				target := filepath.Join(t.TempDir(), "out")
				res, err := h.Run(testkit.Context(t), RunRequest{ID: "r", Outputs: map[string]string{"o": target}, Events: func(e Event) { told <- e }, Job: parseJob(t, `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f"]
    }
  }
  output "o" { from = step.s.o }
}`)})
				close(mended)
				if err != nil || states(res) != c.want {
					t.Fatalf("%s (%v), want %s: %v", states(res), res.Steps[0].Err, c.want, err)
				}
				if _, err := os.ReadFile(filepath.Join(target, "f")); (err == nil) != (c.want == "s=succeeded") {
					t.Errorf("its output: %v", err)
				}
				paused := 0
				for len(told) > 0 {
					if e := <-told; e.Kind == EventPaused {
						paused++
					}
				}
				if want := c.call == "seal" && c.fails > 0 && c.name != "refused"; want != (paused == 1) && c.call == "seal" {
					t.Errorf("it was told %d times that it waits", paused)
				}
				testkit.Until(t, "the worker is empty", func() bool { return len(onWorker(t, rt, "m")) == 0 })
			})
		})
	}
}

// TestNoOutputsNoWait: a step without outputs has come to its end with its exit, whatever becomes of its container.
func TestNoOutputsNoWait(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	mended := make(chan struct{})
	o := &hooked{Runtime: rt}
	o.on = map[string]func(int, func() error) error{"destroy": func(_ int, real func() error) error {
		select {
		case <-mended:
			return real()
		default:
			return &sdk.Error{Class: sdk.Internal, Message: "broken"}
		}
	}}
	h := openHost(t, o, Options{}, "m")
	res, err := h.Run(context.WithoutCancel(t.Context()), RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    run { path = "true" }
  }
}`)})
	if err != nil || !res.Succeeded() {
		t.Errorf("%s: %v", states(res), err)
	}
	close(mended)
	testkit.Until(t, "the worker is empty", func() bool { return len(onWorker(t, rt, "m")) == 0 })
}
