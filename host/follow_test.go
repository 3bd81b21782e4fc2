package host

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// One Internal answer to a Follow (a plugin's own time limit crosses the wire as that) is no evidence of a loss: the process runs on.
func TestInternalFollowIsNotLost(t *testing.T) {
	t.Parallel()
	o := &hooked{Runtime: newMemory(t, "m"), hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "follow" && n == 1 {
			return sdk.NewInternal(context.DeadlineExceeded, "dial garden: i/o timeout")
		}
		return real()
	}}
	h := openHost(t, o, Options{}, "m")
	if got := say(waitOutcome(t, script(t, h, "owner", "sleep 0.2; echo ran"))); got != "exit 0" {
		t.Errorf("a running process became %q", got)
	}
}

// brokenReader gives some bytes, then fails, as a client's connection does.
type brokenReader struct{ said bool }

func (r *brokenReader) Read(p []byte) (int, error) {
	if r.said {
		return 0, io.ErrUnexpectedEOF
	}
	r.said = true
	return copy(p, "line\n"), nil
}

// A client's stdin that breaks does not make a running process lost.
func TestBrokenStdinIsNotLost(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sh", Args: []string{"-c", "read x; sleep 0.3; echo $x"}, Stdin: &brokenReader{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := say(waitOutcome(t, p)); got != "exit 0" {
		t.Errorf("a running process became %q", got)
	}
}

// A host that dies between ending the spool of a lost process and writing its row leaves an ended spool without an exit: the next host must
// come to a verdict.
func TestEndedSpoolWithoutExit(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	p := script(t, h, "owner", "sleep 100")
	closeTestHost(t, h)
	sp, err := spool.Open(filepath.Join(dir, "spool"), spool.Options{}) // what ended() had done when the host was killed
	if err != nil {
		t.Fatal(err)
	}
	w, err := sp.Writer(p.ID())
	if err == nil {
		err = errors.Join(w.Finish(nil), w.Close(), sp.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	p = script(t, h, "owner", "sleep 100")
	ctx := testkit.Context(t)
	o, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("no verdict ever: %v", err)
	}
	if got := say(o); !strings.HasPrefix(got, "lost") {
		t.Errorf("outcome %q", got)
	}
}

// A client that reconnects after a restart of the host brings its stdin again: the process gets it (rule 7).
func TestStdinAfterRestart(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	h := openHost(t, rt, Options{StateDir: dir}, "m")
	start := func(stdin io.Reader) *Process {
		t.Helper()
		c, err := h.Container(t.Context(), "owner", ContainerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "cat", Stdin: stdin})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	r, w := io.Pipe()
	p := start(r)
	if _, err := io.WriteString(w, "one\n"); err != nil {
		t.Fatal(err)
	}
	awaitText(t, p, "one")
	closeTestHost(t, h)
	w.Close()
	h = openHost(t, rt, Options{StateDir: dir}, "m")
	p = start(strings.NewReader("one\ntwo\n"))
	ctx := testkit.Context(t)
	if _, err := p.Wait(ctx); err != nil {
		t.Fatalf("the process waits for its stdin for ever: %v", err)
	}
	if out := output(t, p); out != "one\ntwo\n" {
		t.Errorf("output %q", out)
	}
}

// A timed-out step that ended with 0 on its TERM stays no success when the host dies before the container is gone.
func TestAbortedStaysAborted(t *testing.T) {
	t.Parallel()
	rt, dir := newMemory(t, "m"), t.TempDir()
	var h *Host
	closed := make(chan struct{})
	o := &hooked{Runtime: rt, hook: func(_ context.Context, call, _ string, n int, real func() error) error {
		if call == "destroy" && n == 1 { // the host ends here, as if killed
			go func() { closeTestHost(t, h); close(closed) }()
			<-h.ctx.Done()
			return errAway
		}
		return real()
	}}
	h = openHost(t, o, Options{StateDir: dir}, "m")
	req := RunRequest{ID: "r", Job: parseJob(t, `
job "j" {
  step "s" {
    timeout = "300ms"
    outputs = ["o"]
    run {
      path = "sh"
      args = ["-c", "trap 'exit 0' TERM; while true; do sleep 0.05; done"]
    }
  }
}`)}
	ctx := testkit.Context(t)
	_, err := h.Run(ctx, req)
	if err == nil {
		t.Fatal("the host was not closed in mid-run")
	}
	<-closed
	h2 := openHost(t, rt, Options{StateDir: dir}, "m")
	res, err := h2.Run(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Steps[0].State; s == StepSucceeded || s == StepErrored {
		t.Errorf("the timed-out step is %s after a restart: %v", s, res.Steps[0].Err)
	}
	if left := onWorker(t, rt, "m"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	_ = store.ErrNotFound
}

// TestPausedBefore: who asks to be told of pauses while there is one is told of it, and of its end; who asks after it is told neither.
func TestPausedBefore(t *testing.T) {
	var p Process
	var told []error
	tell := func(why error) { told = append(told, why) }
	p.tellPaused(errAway)
	p.OnPause(tell)
	p.tellResumed()
	p.OnPause(tell)
	p.tellResumed()
	if !slices.Equal(told, []error{errAway, nil}) {
		t.Errorf("told %v", told)
	}
}
