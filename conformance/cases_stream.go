package conformance

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// streamCases check what processes write: journals, positions, acknowledgements.
func streamCases() []Case {
	return []Case{
		{
			ID: "I01-split", Title: "stdout and stderr are told apart and complete", Promises: []string{"5a"}, Level: Must, Profile: Core, Run: runSplit,
			Doc: "Results are on one and complaints on the other.",
		},
		{
			ID: "I02-binary-safe", Title: "every byte comes as it was written, zero bytes and broken UTF-8 included", Promises: []string{"5a"}, Level: Must, Profile: Core, Run: runBinary,
			Doc: "Output is bytes, not lines and not text. A terminal or a line reader in between changes some of them.",
		},
		{
			ID: "I17-order", Title: "two hundred thousand lines come in order, none twice and none missing", Promises: []string{"5a"}, Level: Must, Profile: Core, Run: runOrder,
			Doc: "Chunks that are sent side by side overtake each other.",
		},
		{
			ID: "X08-quick-output", Title: "a thousand short processes each deliver all they wrote before their exit", Promises: []string{"6c"}, Level: Must, Profile: Core, Run: runQuick, Timeout: 5 * time.Minute,
			Doc: "The exit and the last output come by different ways in most backends; whoever does not wait for both loses the output of one process in a few hundred.",
		},
		{
			ID: "I18-no-late-bytes", Title: "nothing comes after the exit, however often the process is followed", Promises: []string{"6c"}, Level: Must, Profile: Core, Run: runNoLateBytes,
			Doc: "A host closes its copy of the output at the exit.",
		},
		{
			ID: "A05-tombstone", Title: "the exit is told again and again, as long as the container lives", Promises: []string{"6e"}, Level: Must, Profile: Core, Run: runTombstone,
			Doc: "A host that crashed between the exit and writing it down asks again.",
		},
		{
			ID: "A07-resume", Title: "following from a position delivers exactly what comes from there on", Promises: []string{"5d"}, Level: Must, Profile: Core, Run: runResume,
			Doc: "A host that restarts goes on where it had stored the output to: a byte twice or a byte missing corrupts it.",
		},
		{
			ID: "A08-unacknowledged-kept", Title: "what was delivered and not acknowledged is delivered again", Promises: []string{"5f"}, Level: Must, Profile: Core, Run: runUnacked,
			Doc: "A host that dies before it has stored output must get it again, also after the process has ended.",
		},
		{
			ID: "A11-output-gap", Title: "below what was acknowledged and dropped, following says output-gap and where the journal begins", Promises: []string{"5i"}, Level: Must, Profile: Core, Run: runOutputGap,
			Doc: "A host that lost its copy must know that output is missing, and where to go on.",
		},
		{
			ID: "A14-bad-position", Title: "following from a position that is negative or beyond the end is Invalid with the reason spec", Promises: []string{"5e"}, Level: Must, Profile: Core, Run: runBadPosition,
			Doc: "A host whose store is of another process than it thinks must hear that; waiting for output that never comes is no answer.",
		},
		{
			ID: "A12-supersede", Title: "the newest follower wins and the older one ends with superseded", Promises: []string{"5j"}, Level: Must, Profile: Core, Run: runSupersede,
			Doc: "A host that restarted must not be shut out by its own dead connection.",
		},
		{
			ID: "A13-follow-exited", Title: "a process that ended while nobody followed delivers its output and exit afterwards", Promises: []string{"5f"}, Level: Must, Profile: Core, Run: runFollowExited,
			Doc: "Output belongs to the process, not to the connection.",
		},
		{
			ID: "I12-spill-block", Title: "a writer whose output nobody acknowledges is held, and nothing is lost when it is released", Promises: []string{"5h"}, Level: Must, Profile: Core, Run: runSpillBlock,
			Doc: "Without a bound one endless printer fills the worker's memory.",
		},
		{
			ID: "I25-spill-after-exit", Title: "what a writer had to say when its leader ended is kept for a follower who comes late", Promises: []string{"6b"}, Level: Must, Profile: Core, Run: runSpillAfterExit,
			Doc: "A host that is being upgraded is slower than the grace after an exit. Waiting for room in a full journal is not being late: to cut there loses the end of the log.",
		},
		{
			ID: "I19-spill-drop", Title: "with drop-oldest the writer goes on, and a gap stands for what was dropped", Promises: []string{"5h", "5i"}, Level: Must, Profile: Core, Run: runSpillDrop,
			Doc: "A service must not stop because nobody reads its log; and a reader must know what it missed.",
		},
		{
			ID: "I24-callback-errors", Title: "errors of a follower's callbacks end the call unchanged and leave the process alone", Promises: []string{"14b", "2c"}, Level: Must, Profile: Core, Run: runCallbackErrors,
			Doc: "A host whose disk is full stops following by an error of its own and comes back later.",
		},
	}
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.String()
}

func runSplit(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Print("out", "err")), "out", "err", "both")
	c.WantOutput(c.Exec(ctx, id, c.Commands.Print("", "only err\n")), "", "only err\n", "only stderr")
	c.WantOutput(c.Exec(ctx, id, c.Commands.Print("only out\n\n", "")), "only out\n\n", "", "only stdout")
}

func runBinary(ctx context.Context, c *C) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, data := range []string{
		strings.Repeat(string(all), 400), "\x00", "no newline at the end", "\r\n\r\n", "\xff\xfe", strings.Repeat("é", 50_001), pattern(1_000_003),
	} {
		v := c.Filled(ctx, File("data", data))
		id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/v/data")), data, "", "a file of %d bytes", len(data))
		c.OK(c.W.DestroyContainer(ctx, id), "destroying the container")
	}
}

func runOrder(ctx context.Context, c *C) {
	n := c.Times(200_000)
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Lines(n)), numbers(1, n), "", "%d lines", n)
}

func runQuick(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Each(ctx, c.Times(1000), 8, func(ctx context.Context, i int) {
		out, errs := fmt.Sprintf("hi %d\n", i), ""
		if i%3 == 0 {
			errs = fmt.Sprintf("oh %d", i)
		}
		j := c.Exec(ctx, id, c.Commands.Print(out, errs))
		c.WantOutput(j, out, errs, "process %d", i)
		c.WantExit(j, 0, "process %d", i)
		if j.Exit.OutputCut {
			c.Errorf("output is only cut where something holds it open", "process %d: its output was cut", i)
		}
	})
}

func runNoLateBytes(ctx context.Context, c *C) {
	id := c.Container(ctx)
	const text = "the whole output\n"
	p := c.Start(ctx, id, c.Commands.Print(text, ""))
	for i := range 3 {
		var j Journal
		after := 0
		f := sdk.Follow{Output: func(rs []sdk.Record) error {
			if j.Exit != nil {
				after += len(rs)
			}
			return nil
		}}
		if i < 2 {
			f.Acks = acknowledge(0) // nothing: the output stays, and with it the follower
			followCtx, cancel := context.WithCancel(ctx)
			f.Exit = func(sdk.Exit) error { cancel(); return nil }
			if err := c.W.FollowProcess(followCtx, id, p, 0, j.Into(f)); err != nil && !isCanceled(err) {
				c.Fatalf("following succeeds", "following, time %d: %s", i+1, describe(err))
			}
			cancel()
		} else {
			c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(f)), "following, time %d", i+1)
		}
		c.WantOutput(j, text, "", "following, time %d", i+1)
		if after > 0 {
			c.Errorf("every journalled byte comes before the exit and none after", "%d records came after the exit, following time %d", after, i+1)
		}
		if j.Exit == nil {
			c.Errorf("the exit comes", "no exit, following time %d", i+1)
		}
	}
}

// acknowledge gives a channel that says one position and nothing more; zero says nothing at all.
func acknowledge(p sdk.Position) <-chan sdk.Position {
	ch := make(chan sdk.Position, 1)
	if p > 0 {
		ch <- p
	}
	return ch
}

func runTombstone(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("some output", "", 6))
	first := c.Follow(ctx, id, p)
	c.WantExit(first, 6, "the first time")
	for i := range 5 {
		var j Journal
		c.OK(c.W.FollowProcess(ctx, id, p, first.End, j.Into(sdk.Follow{})), "following from the end, time %d", i+1)
		if j.Exit == nil || !sameExit(*j.Exit, *first.Exit) {
			c.Errorf("an exit is written once and never changes", "time %d: got %s, want %s", i+1, exitText(j.Exit), exitText(first.Exit))
		}
		if len(j.Stdout)+len(j.Stderr)+len(j.Gaps) > 0 {
			c.Errorf("following from the end delivers the exit and nothing else", "time %d: %d bytes came", i+1, len(j.Stdout)+len(j.Stderr))
		}
		if j.Opened.State != sdk.ProcessExited {
			c.Errorf("Opened tells the state", "time %d: Opened says %s, want exited", i+1, j.Opened.State)
		}
	}
}

func runResume(ctx context.Context, c *C) {
	id := c.Container(ctx)
	const lines = 2000
	want := numbers(1, lines)
	p := c.Start(ctx, id, c.Commands.Lines(lines))
	whole := c.FollowUnacked(ctx, id, p, 0)
	c.WantOutput(whole, want, "", "from the start")
	cuts := []int{1, 2, len(want) / 2, len(want) - 1, len(want)}
	for range 5 {
		cuts = append(cuts, c.Rand.IntN(len(want)))
	}
	slices.Sort(cuts) // following from a position may count as its acknowledgement
	for _, n := range cuts {
		j := c.FollowUnacked(ctx, id, p, sdk.Position(n))
		c.WantOutput(j, want[n:], "", "from position %d", n)
		if j.Exit == nil || !sameExit(*j.Exit, *whole.Exit) {
			c.Errorf("each follower gets the exit", "from position %d: %s", n, exitText(j.Exit))
		}
	}
}

// FollowUnacked follows to the exit and acknowledges nothing, so that all can be followed again.
func (c *C) FollowUnacked(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position) Journal {
	var j Journal
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.W.FollowProcess(followCtx, id, p, from, j.Into(sdk.Follow{
		Acks: acknowledge(0),
		Exit: func(sdk.Exit) error { cancel(); return nil },
	}))
	if err != nil && !isCanceled(err) {
		c.refused(err, "following process %q from %d", p, from)
	}
	if j.Exit == nil {
		c.Fatalf("a follower gets the exit", "following process %q from %d ended without an exit", p, from)
	}
	return j
}

func runUnacked(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("one\n", "two\n", 0), WithStdin)
	for range 3 {
		c.AwaitOutput(ctx, id, p, "one\n")
	}
	j := c.FollowStdin(ctx, id, p, &unackedStdin{})
	c.WantOutput(j, "one\ntwo\n", "", "after three followers that acknowledged nothing")
}

// unackedStdin gives one line and its end.
type unackedStdin struct{ done bool }

func (s *unackedStdin) Read(p []byte) (int, error) {
	if s.done {
		return 0, io.EOF
	}
	s.done = true
	return copy(p, "go\n"), nil
}

func runOutputGap(ctx context.Context, c *C) {
	id := c.Container(ctx)
	const text = "0123456789"
	p := c.Start(ctx, id, c.Commands.Print(text, ""))
	end := c.Follow(ctx, id, p).End
	if end != 10 {
		c.Fatalf("positions count bytes", "the end is at %d after 10 bytes", end)
	}
	var j Journal
	err := c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{}))
	if err == nil { // it may keep what it could drop
		c.WantOutput(j, text, "", "following from the start after all was acknowledged")
		return
	}
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonOutputGap, "what is gone must be told from what never was", "following from the start after all was acknowledged")
	if len(j.Stdout) > 0 || j.Exit != nil {
		c.Errorf("a refusal delivers nothing", "%d bytes and %s came", len(j.Stdout), exitText(j.Exit))
	}
	kept := asError(err).Position
	if kept < 1 || kept > 10 {
		c.Fatalf("the error names the first position kept", "position %d is not in 1 to 10", kept)
	}
	var rest Journal
	c.OK(c.W.FollowProcess(ctx, id, p, kept, rest.Into(sdk.Follow{})), "following from %d", kept)
	c.WantOutput(rest, text[kept:], "", "following from the position that the error named")
}

func runBadPosition(ctx context.Context, c *C) {
	id := c.Container(ctx)
	running := c.Started(ctx, id, c.Commands.Sleep()) // six bytes
	ended := c.Start(ctx, id, c.Commands.Print("six by", ""))
	c.AwaitExited(ctx, id, ended)
	for _, p := range []sdk.ProcessID{running, ended} {
		for _, from := range []sdk.Position{-1, 7, 1 << 40} {
			var j Journal
			err := c.W.FollowProcess(ctx, id, p, from, j.Into(sdk.Follow{}))
			c.WantReason(err, sdk.Invalid, sdk.ReasonSpec, "a position is one of the journal's", "following from %d of 6 bytes", from)
			if j.Exit != nil || len(j.Stdout) > 0 {
				c.Errorf("a refusal delivers nothing", "following from %d of 6 bytes: %d bytes and %s came", from, len(j.Stdout), exitText(j.Exit))
			}
		}
	}
	c.WantOutput(c.Follow(ctx, id, ended), "six by", "", "from the start, afterwards")
}

func runSupersede(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("one\n", "two\n", 3), WithStdin)
	older := make(chan error, 1)
	opened := make(chan struct{})
	c.Go(func(ctx context.Context) {
		older <- c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
			Opened: func(sdk.Opened) error { close(opened); return nil },
			Acks:   acknowledge(0),
		})
	})
	c.Await(ctx, opened, "the older follower's Opened")
	j := c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "one\ntwo\n", "", "the newer follower")
	c.WantExit(j, 3, "the newer follower")
	err := c.AwaitError(ctx, older, "the older follower's end")
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonSuperseded, "a follower must know that it is not the one any more", "the older follower")
}

func runFollowExited(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Print("nobody", "listens"))
	c.AwaitExited(ctx, id, p)
	j := c.Follow(ctx, id, p)
	c.WantOutput(j, "nobody", "listens", "followed after its end")
	if j.Opened.State != sdk.ProcessExited {
		c.Errorf("Opened tells the state", "Opened says %s, want exited", j.Opened.State)
	}
}

const (
	spill      = 64 << 10
	spillLines = 100_000 // 588,895 bytes
)

func runSpillAfterExit(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Lines(20_000), func(s *sdk.ProcessSpec) { s.Spill = spill })
	// The writer fills the journal and is held. Nobody comes for longer than the grace of rule 6.
	select {
	case <-time.After(2 * sdk.OutputGrace):
	case <-ctx.Done():
	}
	j := c.Follow(ctx, id, p)
	c.WantOutput(j, numbers(1, 20_000), "", "the numbers up to 20,000, followed %s after the start", 2*sdk.OutputGrace)
}

func runSpillBlock(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Lines(spillLines), func(s *sdk.ProcessSpec) { s.Spill = spill })
	// A follower that acknowledges nothing gets what fits, and no more.
	var got atomic.Int64
	full := make(chan struct{})
	first := make(chan error, 1)
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.Go(func(context.Context) {
		first <- c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{
			Acks: acknowledge(0),
			Output: func(rs []sdk.Record) error {
				end := int64(rs[len(rs)-1].End())
				if got.Swap(end) < spill/2 && end >= spill/2 {
					close(full)
				}
				return nil
			},
		})
	})
	c.Await(ctx, full, "half of what fits the journal")
	if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
		c.Errorf("a writer whose output is not acknowledged waits", "it is %s with %d of 588895 bytes delivered and none acknowledged", i.State, got.Load())
	}
	cancel()
	c.AwaitError(ctx, first, "the first follower's end")
	if n := got.Load(); n > spill {
		c.Errorf("unacknowledged bytes are kept up to the spill", "%d bytes came with nothing acknowledged, more than %d", n, spill)
	}

	// One that acknowledges as it goes gets everything, and is never further ahead than the journal is long.
	acks := make(chan sdk.Position, 1)
	acked := sdk.Position(0)
	var j Journal
	err := c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Acks: acks, Output: func([]sdk.Record) error {
		if j.End-acked > spill {
			c.Errorf("unacknowledged bytes are kept up to the spill", "%d bytes came beyond what was acknowledged, more than %d", j.End-acked, spill)
		}
		select {
		case <-acks: // an older one that was not received yet
		default:
		}
		acked = j.End
		acks <- acked
		return nil
	}}))
	c.OK(err, "following with acknowledgements")
	c.WantOutput(j, numbers(1, spillLines), "", "after the writer was held")
	if len(j.Gaps) > 0 {
		c.Errorf("a writer that is held loses nothing", "%d gaps came", len(j.Gaps))
	}
	c.WantExit(j, 0, "after the writer was held")
}

func runSpillDrop(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Lines(spillLines), func(s *sdk.ProcessSpec) { s.Spill, s.WhenFull = spill, sdk.DropOldest })
	c.AwaitExited(ctx, id, p)
	want := numbers(1, spillLines)
	j := c.Follow(ctx, id, p)
	if len(j.Gaps) != 1 || j.Gaps[0].Position != 0 {
		c.Fatalf("a gap stands for what was dropped, from the beginning on", "gaps are %v, want one from 0 on", j.Gaps)
	}
	from := int(j.Gaps[0].GapTo)
	if from > len(want) || string(j.Stdout) != want[from:] {
		c.Errorf("what is kept is the newest, and nothing of it is missing", "after a gap to %d: stdout is %s", from, difference(string(j.Stdout), want[min(from, len(want)):]))
	}
	if int(j.End) != len(want) {
		c.Errorf("positions count dropped bytes too", "the end is at %d, want %d", j.End, len(want))
	}
	if n := len(j.Stdout); n == 0 || n > spill {
		c.Errorf("up to the spill is kept", "%d bytes were kept, want 1 to %d", n, spill)
	}
	c.WantExit(j, 0, "a writer that was not held")
}

func runCallbackErrors(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 2), WithStdin)
	for what, f := range map[string]sdk.Follow{
		"Opened": {Opened: func(sdk.Opened) error { return callerError{} }, Acks: acknowledge(0)},
		"Output": {Output: func([]sdk.Record) error { return callerError{} }, Acks: acknowledge(0)},
	} {
		if err := c.W.FollowProcess(ctx, id, p, 0, f); err != (callerError{}) {
			c.Errorf("errors of the caller's own callback come back unchanged", "an error of %s: got %s", what, describe(err))
		}
	}
	if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
		c.Fatalf("a follower's end leaves the process alone", "the process is %s", i.State)
	}
	exitErr := c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
		Stdin: strings.NewReader("go\n"), Acks: acknowledge(0), Exit: func(sdk.Exit) error { return callerError{} },
	})
	if exitErr != (callerError{}) {
		c.Errorf("errors of the caller's own callback come back unchanged", "an error of Exit: got %s", describe(exitErr))
	}
	j := c.Follow(ctx, id, p)
	c.WantOutput(j, "before\nafter\n", "", "after three followers that failed")
	c.WantExit(j, 2, "after three followers that failed")
}
