package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

var errAway = sdk.NewUnavailable(nil, "the test is away")

// TestRules is the table of rules 3, 4 and 14: what a worker answers around a start and while following, and what the host makes of
// it. The worker behind the answers is memory's. In every row the script is started at most once, and whatever is not
// known to have exited is never an exit.
func TestRules(t *testing.T) {
	gone := sdk.NewNotFound(sdk.KindContainer, "c")
	firstTimes := func(n int, err error) func(int, func() error) error {
		return func(i int, real func() error) error {
			if i <= n {
				return err
			}
			return real()
		}
	}
	rows := []struct {
		name   string
		hooks  func(h *hooked)
		starts int    // StartProcess calls that the worker got; 0: any number
		want   string // "exit 0", "lost: text", "aborted", "start: class"
		output string
	}{
		{"nothing special", func(h *hooked) {}, 1, "exit 0", "ran\n"},
		{"start away, took effect", func(h *hooked) {
			h.on["start"] = func(n int, real func() error) error { return errors.Join(errAway, real()) }
		}, 1, "exit 0", "ran\n"},
		{"start away, took no effect", func(h *hooked) { h.on["start"] = firstTimes(1, errAway) }, 2, "exit 0", "ran\n"},
		{"start internal, took effect", func(h *hooked) {
			h.on["start"] = func(n int, real func() error) error { return errors.Join(sdk.NewInternal(nil, "broken"), real()) }
		}, 1, "exit 0", "ran\n"},
		{"start internal, took no effect", func(h *hooked) { h.on["start"] = firstTimes(9, sdk.NewInternal(nil, "broken")) },
			1, "start: internal", ""},
		{"start invalid", func(h *hooked) { h.on["start"] = firstTimes(9, sdk.NewInvalid(sdk.ReasonExecutableNotFound, "no sh")) },
			1, "start: invalid", ""},
		{"start exhausted", func(h *hooked) { h.on["start"] = firstTimes(9, sdk.NewExhausted(sdk.ReasonMemory, "full")) },
			1, "start: exhausted", ""},
		{"follow away three times", func(h *hooked) { h.on["follow"] = firstTimes(3, errAway) }, 1, "exit 0", "ran\n"},
		{"follow superseded by a connection of its own", func(h *hooked) {
			h.on["follow"] = firstTimes(1, sdk.NewFailedPrecondition(sdk.ReasonSuperseded, sdk.KindProcess, "main", "superseded"))
		}, 1, "exit 0", "ran\n"},
		{"container not found for a moment", func(h *hooked) { h.on["follow"] = firstTimes(1, gone) }, 1, "exit 0", "ran\n"},
		{"container not found, and not listed for a moment", func(h *hooked) {
			h.on["follow"] = firstTimes(1, gone)
			h.on["list"] = firstTimes(1, nil)
		}, 1, "exit 0", "ran\n"},
		{"container not found for longer than the grace", func(h *hooked) {
			h.on["follow"], h.on["list"] = firstTimes(99, gone), firstTimes(99, nil)
		}, 1, "lost: its container has been missing for", ""},
		{"container gone under a new incarnation", func(h *hooked) {
			h.on["follow"] = func(n int, real func() error) error {
				if n == 1 {
					return errAway // the worker is looked at again, and is another one
				}
				return gone
			}
			h.on["list"] = firstTimes(99, nil)
			h.status = func(_ context.Context, _ int, s *sdk.Status) error {
				if h.calls("follow") > 0 {
					s.ContainerIncarnation += "-reborn"
				}
				return nil
			}
		}, 1, "lost: worker m came back without what it had", ""},
		{"incarnation unknown for a while", func(h *hooked) {
			h.on["follow"] = firstTimes(1, errAway)
			h.status = func(_ context.Context, n int, s *sdk.Status) error {
				if n == 2 {
					s.ContainerIncarnation, s.VolumeIncarnation = "", ""
				}
				return nil
			}
		}, 1, "exit 0", "ran\n"},
		{"container never started the process", func(h *hooked) {
			h.on["follow"] = firstTimes(99, sdk.NewNotFound(sdk.KindProcess, "main"))
		}, 1, "lost: process \"main\" not found", ""},
		{"process abandoned, its journal is there", func(h *hooked) {
			h.on["follow"] = func(n int, real func() error) error {
				if err := real(); err != nil && !errors.Is(err, errNoExit) {
					return err
				}
				return sdk.NewFailedPrecondition(sdk.ReasonAbandoned, sdk.KindProcess, "main", "abandoned")
			}
		}, 1, "exit 0", "ran\n"}, // the exit had come before: it stays
		{"process abandoned", func(h *hooked) {
			h.on["follow"] = firstTimes(99, sdk.NewFailedPrecondition(sdk.ReasonAbandoned, sdk.KindProcess, "main", "abandoned"))
		}, 1, "lost: nobody was left", ""},
		{"record of a dead container cannot be read", func(h *hooked) {
			h.on["follow"] = firstTimes(99, sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, "c", "scratch is gone"))
		}, 1, "lost: scratch is gone", ""},
		{"worker away for too long", func(h *hooked) {
			h.on["follow"] = firstTimes(99, errAway)
			h.status = func(_ context.Context, _ int, s *sdk.Status) error {
				if h.calls("follow") > 0 {
					s.Health, s.Reason = sdk.Away, "unplugged"
				}
				return nil
			}
		}, 1, "lost: worker m has been away for", ""},
		{"create away, took effect", func(h *hooked) {
			h.on["create"] = func(n int, real func() error) error {
				err := real()
				if n == 1 {
					return errAway
				}
				return err
			}
		}, 1, "exit 0", "ran\n"},
	}
	for _, row := range rows {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			o := &hooked{Runtime: newMemory(t, "m"), on: make(map[string]func(int, func() error) error)}
			row.hooks(o)
			cfg := testConfig("m")
			cfg.Timing.MissingGrace = time.Hour // no moment is as long on the slowest machine
			switch {
			case strings.HasPrefix(row.want, "lost: its container has been missing"):
				cfg.Timing.MissingGrace = time.Millisecond
			case strings.HasPrefix(row.want, "lost: worker m has been away"):
				cfg.Timing.WorkerGone = 300 * time.Millisecond
			}
			h := openConfig(t, cfg, Options{Runtimes: map[string]sdk.Runtime{"memory": o}})
			p, err := tryScript(t, h, "owner", "echo ran")
			got := ""
			if err != nil {
				got = "start: " + string(sdk.ClassOf(err))
			} else {
				got = say(waitOutcome(t, p))
				if out := output(t, p); out != row.output {
					t.Errorf("output %q, want %q", out, row.output)
				}
			}
			if !strings.HasPrefix(got, row.want) {
				t.Errorf("outcome %q (%v), want %q", got, err, row.want)
			}
			if n := o.calls("start"); row.starts > 0 && n != row.starts {
				t.Errorf("%d starts were sent, want %d", n, row.starts)
			}
			if n := o.usedTokens(); n != 1 {
				t.Errorf("starts with %d tokens, want one", n)
			}
			checkRow(t, h, row.want)
		})
	}
}

var errNoExit = errors.New("no exit")

func say(o Outcome) string {
	var lost *LostError
	var aborted *AbortedError
	switch {
	case o.Exit != nil && o.Err != nil:
		return fmt.Sprintf("both an exit and %v", o.Err)
	case o.Exit != nil:
		return fmt.Sprintf("exit %d", o.Exit.Code)
	case errors.As(o.Err, &lost):
		return "lost: " + lost.Reason
	case errors.As(o.Err, &aborted):
		return "aborted: " + aborted.Reason
	}
	return fmt.Sprint("neither: ", o.Err)
}

// checkRow checks that the store says the same: a start without effect has left no row.
func checkRow(t *testing.T, h *Host, want string) {
	t.Helper()
	var rows []store.Process
	err := h.store.View(t.Context(), func(tx *store.Tx) (err error) {
		rows, err = tx.Processes(store.ProcessFilter{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	state, _, _ := strings.Cut(want, ":")
	switch {
	case state == "start" && len(rows) == 0:
	case len(rows) == 1 && strings.HasPrefix(state, "exit") && rows[0].State == lifecycle.ProcessExited && len(rows[0].Exit) > 0:
	case len(rows) == 1 && state == "lost" && rows[0].State == lifecycle.ProcessLost && len(rows[0].Exit) == 0:
	default:
		t.Errorf("rows %+v, want %s", rows, want)
	}
}

// TestDestroyedIsAborted: what the host itself destroyed is not lost.
func TestDestroyedIsAborted(t *testing.T) {
	t.Parallel()
	h := openHost(t, newMemory(t, "m"), Options{}, "m")
	c, err := h.Container(t.Context(), "owner", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), MainProcess, ProcessRequest{Path: "sleep", Args: []string{"100"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Abort(t.Context(), t.Context(), c, errors.New("the test wants it"), time.Hour); err != nil {
		t.Fatal(err)
	}
	o := waitOutcome(t, p)
	if o.Exit == nil || o.Exit.Signal != sdk.TERM { // it obeyed the TERM
		t.Errorf("outcome %s", say(o))
	}
	q := script(t, h, "another", "trap '' TERM; echo deaf; while :; do sleep 1; done")
	awaitText(t, q, "deaf")
	d, err := h.Container(t.Context(), "another", ContainerRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Abort(t.Context(), t.Context(), d, errors.New("the test insists"), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := say(waitOutcome(t, q)); got != "aborted: the test insists" {
		t.Errorf("outcome %q", got)
	}
}

// TestUnknownNamesTheThing: memory says what it did not find, for the host decides by that.
func TestUnknownNamesTheThing(t *testing.T) {
	t.Parallel()
	w, err := newMemory(t, "m").Worker("m")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := w.CreateContainer(ctx, sdk.ContainerSpec{ID: "there", Token: "t"}, nil); err != nil {
		t.Fatal(err)
	}
	start := sdk.ProcessSpec{ID: "p", Token: "t", Path: "true"}
	for what, c := range map[string]struct {
		err  error
		kind sdk.Kind
	}{
		"start":           {w.StartProcess(ctx, "missing", start), sdk.KindContainer},
		"follow":          {w.FollowProcess(ctx, "missing", "p", 0, sdk.Follow{}), sdk.KindContainer},
		"follow process":  {w.FollowProcess(ctx, "there", "p", 0, sdk.Follow{}), sdk.KindProcess},
		"signal":          {w.SignalProcess(ctx, "missing", "p", sdk.TERM), sdk.KindContainer},
		"signal process":  {w.SignalProcess(ctx, "there", "p", sdk.TERM), sdk.KindProcess},
		"seal":            {w.SealVolume(ctx, "missing"), sdk.KindVolume},
		"clone":           {w.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t", Clone: "missing"}), sdk.KindVolume},
		"stream out path": {streamOutMissing(t, w), sdk.KindFile},
	} {
		if !sdk.IsNotFound(c.err, c.kind) {
			t.Errorf("%s: %v, want NotFound of a %s", what, c.err, c.kind)
		}
	}
	for what, err := range map[string]error{"container": w.DestroyContainer(ctx, "missing"), "volume": w.DestroyVolume(ctx, "missing")} {
		if err != nil {
			t.Errorf("destroying a %s that is not there: %v", what, err)
		}
	}
}

func streamOutMissing(t *testing.T, w sdk.Worker) error {
	if err := w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "empty", Token: "t"}); err != nil {
		t.Fatal(err)
	}
	return w.StreamOut(t.Context(), "empty", sdk.StreamOut{Path: "nothing"}, nil)
}
