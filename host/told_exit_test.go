package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// outputJob makes an output, and its step fails.
const outputJob = `
job "j" {
  step "s" {
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "echo made > o/f; exit 3"]
    }
  }
  output "o" { from = step.s.o }
}`

// lying is a runtime that tells other ends of its processes than they had: each of them, one after the other.
func lying(rt sdk.Runtime, ends ...sdk.Exit) *hooked {
	return &hooked{Runtime: rt, follow: func(_ string, f sdk.Follow) sdk.Follow {
		tell := f.Exit
		f.Exit = func(sdk.Exit) (err error) {
			for _, e := range ends {
				err = errors.Join(err, tell(e))
			}
			return err
		}
		return f
	}}
}

// TestToldExit: an end that no process can have had is its plugin's defect: the step is lost, and nothing of it is taken. Of several the first
// counts.
func TestToldExit(t *testing.T) {
	t.Parallel()
	ended := func(code int) sdk.Exit { return sdk.Exit{Code: code, Reason: sdk.ExitExited} }
	signalled := func(code int, s sdk.Signal) sdk.Exit {
		return sdk.Exit{Code: code, Signal: s, Reason: sdk.ExitSignalled}
	}
	for name, c := range map[string]struct {
		ends []sdk.Exit
		want StepState
		code int // where it is an end
	}{
		"256":                         {[]sdk.Exit{ended(256)}, StepLost, 0},
		"-256":                        {[]sdk.Exit{ended(-256)}, StepLost, 0},
		"-1":                          {[]sdk.Exit{ended(-1)}, StepLost, 0},
		"beyond 32 bits":              {[]sdk.Exit{ended(1 << 32)}, StepLost, 0},
		"0 with a signal":             {[]sdk.Exit{signalled(0, sdk.KILL)}, StepLost, 0},
		"0 with a signal that exited": {[]sdk.Exit{{Signal: sdk.TERM, Reason: sdk.ExitExited}}, StepLost, 0},
		"0 of a signal without name":  {[]sdk.Exit{signalled(0, "")}, StepLost, 0},
		"0 out of memory":             {[]sdk.Exit{{Reason: sdk.ExitOOM}}, StepLost, 0},
		"0 for an unknown reason":     {[]sdk.Exit{{Reason: "because"}}, StepLost, 0},
		"a signal with its number":    {[]sdk.Exit{signalled(9, sdk.KILL)}, StepLost, 0},
		"no signal's name":            {[]sdk.Exit{signalled(137, "KILL\x1b[2J")}, StepLost, 0},
		"none, then one":              {[]sdk.Exit{ended(256), ended(0)}, StepLost, 0},
		"3, then 0":                   {[]sdk.Exit{ended(3), ended(0)}, StepFailed, 3},
		"3, then none":                {[]sdk.Exit{ended(3), ended(256)}, StepFailed, 3},
		"0, then 3":                   {[]sdk.Exit{ended(0), ended(3)}, StepSucceeded, 0},
		"0 twice":                     {[]sdk.Exit{ended(0), ended(0)}, StepSucceeded, 0},
		"0 for no reason":             {[]sdk.Exit{{}}, StepSucceeded, 0},
		"255":                         {[]sdk.Exit{ended(255)}, StepFailed, 255},
		"killed":                      {[]sdk.Exit{signalled(137, sdk.KILL)}, StepFailed, 137},
		"0 with a book":               {[]sdk.Exit{{Reason: sdk.ExitExited, Message: strings.Repeat("and so on ", 100_000)}}, StepSucceeded, 0},
		"0 in the year 12000":         {[]sdk.Exit{{Reason: sdk.ExitExited, EndedAt: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}}, StepSucceeded, 0},
	} {
		for _, wire := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", over the wire"}[wire], func(t *testing.T) {
				t.Parallel()
				rt := newMemory(t, "m")
				var liar sdk.Runtime = lying(rt, c.ends...)
				if wire {
					liar = rpctest.Pair(t, liar)
				}
				h := openHost(t, liar, Options{}, "m")
				out := filepath.Join(t.TempDir(), "out")
				req := RunRequest{ID: "r", Job: parseJob(t, outputJob), Outputs: map[string]string{"o": out}}
				res, err := h.Run(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				s := res.Steps[0]
				if s.State != c.want {
					t.Fatalf("the step %s, want %s", s.Summary(), c.want)
				}
				if _, err := os.Stat(out); (err == nil) != (c.want == StepSucceeded) {
					t.Errorf("its output: %v", err)
				}
				if c.want != StepLost {
					if s.Exit == nil || s.Exit.Code != c.code {
						t.Errorf("its exit: %+v", s.Exit)
					}
				} else if s.Exit != nil || !strings.Contains(s.Summary(), "its plugin told an end that is none") {
					t.Errorf("its exit: %+v; %s", s.Exit, s.Summary())
				}
				// The records say the same.
				records, err := OpenRecords(t.Context(), h.dir)
				if err != nil {
					t.Fatal(err)
				}
				defer records.Close()
				steps, err := records.Steps(t.Context(), "r")
				if err != nil || len(steps) != 1 {
					t.Fatalf("%+v, %v", steps, err)
				}
				if r := steps[0]; c.want == StepLost && (r.State != lifecycle.ProcessLost || r.Exit != nil || r.Reason == "") ||
					c.want != StepLost && (r.State != lifecycle.ProcessExited || r.Exit.Code != c.code) {
					t.Errorf("recorded: %+v", r)
				}
				if left := onWorker(t, rt, "m"); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			})
		}
	}
}

// TestToldExitThenOpen: a plugin that has told an end that is none, and neither ends the call nor minds being cut off, holds nobody up.
func TestToldExitThenOpen(t *testing.T) {
	t.Parallel()
	rt := newMemory(t, "m")
	o := &hooked{Runtime: rt}
	o.hook = func(ctx context.Context, call, _ string, _ int, real func() error) error {
		if call != "follow" {
			return real()
		}
		_ = real()
		<-ctx.Done()
		return nil
	}
	o.follow = lying(rt, sdk.Exit{Code: 256, Reason: sdk.ExitExited}).follow
	h := openHost(t, o, Options{}, "m")
	res, err := h.Run(t.Context(), RunRequest{Job: parseJob(t, outputJob)})
	if err != nil || states(res) != "s=lost" {
		t.Errorf("%s, %v", states(res), err)
	}
}

// TestStoredExit: what an older host has stored of a plugin's word, and died before its row, is looked at as well.
func TestStoredExit(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	closed := make(chan struct{})
	var h *Host
	o := &hooked{Runtime: rt, hook: func(ctx context.Context, call, _ string, n int, real func() error) error {
		if call == "follow" && n == 1 { // the host ends here, as if killed
			go func() { closeTestHost(t, h); close(closed) }()
			<-h.ctx.Done()
			return ctx.Err()
		}
		return real()
	}}
	h = openHost(t, o, Options{StateDir: dir}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "true"})
	if err != nil {
		t.Fatal(err)
	}
	<-closed
	storeTrailer(t, dir, p.ID(), `{"Code":256,"Reason":"exited"}`)
	h = openHost(t, o, Options{StateDir: dir}, "m")
	p, err = h.FindProcess(t.Context(), "owner", MainProcess)
	if err != nil {
		t.Fatal(err)
	}
	var lost *LostError
	if out := waitOutcome(t, p); out.Exit != nil || !errors.As(out.Err, &lost) {
		t.Errorf("it ended as %+v", out)
	}
}

// storeTrailer ends a process's output as a host does before its row.
func storeTrailer(t *testing.T, dir, process, trailer string) {
	t.Helper()
	s, err := spool.Open(filepath.Join(dir, "spool"), spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Writer(process)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Finish([]byte(trailer)), w.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestUnsettledStartInALostContainer: whether a start took effect is not known, and its container is lost meanwhile. That is the answer,
// and no worker is asked for it: it may be away for ever.
func TestUnsettledStartInALostContainer(t *testing.T) {
	t.Parallel()
	ctx, cut := context.WithCancel(t.Context())
	o := &hooked{Runtime: newMemory(t, "m"), on: map[string]func(int, func() error) error{"start": func(int, func() error) error {
		cut()
		return ctx.Err()
	}}}
	h := openHost(t, o, Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(ctx, MainProcess, ProcessRequest{Path: "true"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("a start that was cut: %v", err)
	}
	if err := h.loseContainer(t.Context(), string(c.id), "its worker came back empty"); err != nil {
		t.Fatal(err)
	}
	if c, err = h.FindContainer(t.Context(), "owner"); err != nil {
		t.Fatal(err)
	}
	asked := o.calls("start") + o.calls("list-processes")
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "true"})
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := p.Wait(t.Context())
	if _, lost := errors.AsType[*LostError](outcome.Err); err != nil || !lost {
		t.Errorf("%+v, %v, want lost", outcome, err)
	}
	if n := o.calls("start") + o.calls("list-processes"); n != asked {
		t.Errorf("the worker was asked %d times", n-asked)
	}
}
