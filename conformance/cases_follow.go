package conformance

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing/iotest"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// followCases check the finer points of following, of stdin and of signals.
func followCases() []Case {
	must := func(id, title, doc string, run func(context.Context, *C), promises ...string) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: promises, Level: Must, Profile: Core, Run: run}
	}
	return []Case{
		must("A15-ack-beyond", "acknowledgements beyond what was delivered are ignored", "Catches a journal that drops what nobody has seen, because a number says so.", runAckBeyond, "5g"),
		must("A16-ack-smaller", "acknowledgements count upwards only", "Catches a smaller one, which came late, that moves the end of what is kept back and then fails.", runAckSmaller, "5g"),
		must("A17-acks-closed", "with the last position acknowledged and Acks closed, following ends with nil", "Catches a closed channel that is read as an endless row of zeros, or waited on for ever.", runAcksClosed, "5k"),
		must("A18-opened", "Opened tells the state and what was taken of stdin", "Catches a follower that learns where it stands only from what comes.", runOpened, "5m", "7f"),
		must("A19-follow-twice", "following two processes of one container at once gives each its own", "Catches one follower for a container, and callbacks that are mixed up.", runFollowTwo, "5l"),
		must("A20-cancel-quiet", "a follower of a process that says nothing ends with its context", "Catches a wait for output that no context ends: each host that goes away leaves one behind.", runCancelQuiet, "2a", "14c"),
		must("A21-late-follower", "of a process that ended long ago and was never followed, all output is there, for each of its followers", "Catches output that is freed after its first reader, or after a time.", runLateFollowers, "5f"),
		must("A22-exit-unacknowledged", "as long as the last output is not acknowledged, a follower has its exit and does not end", "Catches an end that a host would take for an acknowledgement of what it has not stored.", runExitUnacked, "5k"),
		must("I23-stdin-times", "stdin that comes in five parts with pauses for answers comes in order", "Catches a pump that waits for more before it passes on what is there: whoever talks to a program waits for ever.", runStdinAnswers, "7a"),
		must("I27-stdin-tiny", "stdin that comes byte by byte is taken byte for byte", "Catches a short read that is taken for the end.", runStdinTiny, "7a"),
		must("I28-stdin-ahead", "no more of stdin is read than the bound before it is taken", "Catches a pump that reads all of a source into memory while the process sleeps.", runStdinAhead, "7h"),
		must("I30-stdin-waits", "a follower without stdin leaves the process's stdin open", "Catches a logs command that ends the program it watches.", runStdinWaits, "7c"),
		must("I31-stdin-afterwards", "a follower that brings stdin after its end was said changes nothing", "Catches bytes after the end of a file, and a wait for somebody who reads them.", runStdinAfterwards, "7g"),
		must("I32-no-newline", "output without a newline is delivered while its process waits", "Catches whatever waits for whole lines: prompts.", runNoNewline, "5c"),
		must("I33-silence", "a process that writes nothing for a while and then goes on is followed all along", "Catches a follower that gives up on a quiet program.", runSilence, "5c"),
		must("I34-big-both", "a megabyte on each stream comes whole, whoever is read first", "Catches a pipe that fills up because the other one is read to its end first.", runBothStreams, "5a"),
		must("S16-signals-many", "twenty signals at once are all taken, and the process hears of at least one", "Catches a queue of one that answers the others with an error.", runSignalsMany, "8a"),
		must("S17-other-signals", "QUIT, USR1 and USR2 end what does not handle them, and say so", "Catches signals that are lost on the way because only the usual ones were thought of.", runOtherSignals, "6d"),
		must("S18-cont", "CONT to a process that was not halted does nothing", "Catches a CONT that is taken for any signal, and kills.", runCont, "8e"),
		must("S19-kill-waiting", "KILL ends a process that waits for stdin, and one whose output nobody takes", "Catches a kill that waits for a pump, which waits for the process.", runKillWaiting, "8b"),
		must("X09-times", "an exit's times are in order and the same for everyone who asks", "Catches times that are made when somebody asks.", runExitTimes, "12a", "6e"),
		must("X10-many-exits", "exits of processes that ended in any order are told each by its own", "Catches a list of exits that is kept in the order of starts.", runManyExits, "6d"),
	}
}

func runAckBeyond(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 0), WithStdin)
	acks := make(chan sdk.Position)
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var j Journal
	err := c.W.FollowProcess(followCtx, id, p, 0, j.Into(sdk.Follow{Acks: acks, Output: func([]sdk.Record) error {
		if len(j.Stdout) == len("before\n") {
			c.Go(func(context.Context) {
				defer cancel()
				for range 2 { // once the second is taken, the first has had its effect
					select {
					case acks <- 1 << 40:
					case <-followCtx.Done():
					}
				}
			})
		}
		return nil
	}}))
	if !isCanceled(err) {
		c.Errorf("a follower whose context ends says so", "following: got %s", describe(err))
	}
	j = c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "before\nafter\n", "", "after an acknowledgement of what never was")
}

func runAckSmaller(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Print("0123456789", ""))
	c.AwaitExited(ctx, id, p)
	acks := make(chan sdk.Position)
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{Acks: acks, Exit: func(sdk.Exit) error {
		c.Go(func(context.Context) {
			defer cancel()
			for _, n := range []sdk.Position{7, 3, 0, 7} {
				select {
				case acks <- n:
				case <-followCtx.Done():
				}
			}
		})
		return nil
	}})
	if !isCanceled(err) {
		c.Errorf("a follower whose last position is not acknowledged goes on", "following: got %s", describe(err))
	}
	var j Journal
	c.OK(c.W.FollowProcess(ctx, id, p, 7, j.Into(sdk.Follow{})), "following from what was acknowledged")
	c.WantOutput(j, "789", "", "from what was acknowledged")
}

func runAcksClosed(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, text := range []string{"some output", ""} {
		p := c.Start(ctx, id, c.Commands.Print(text, ""))
		acks := make(chan sdk.Position, 1)
		var j Journal
		c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Acks: acks, Exit: func(sdk.Exit) error {
			acks <- sdk.Position(len(text))
			close(acks)
			return nil
		}})), "following with the last position acknowledged and Acks closed")
		c.WantOutput(j, text, "", "with Acks closed")
		c.WantExit(j, 0, "with Acks closed")
	}
}

func runOpened(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "", 0), WithStdin)
	c.AwaitOutput(ctx, id, p, "before\n")
	opened := func(in io.Reader) (o sdk.Opened) {
		followCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		err := c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{Stdin: in, Acks: acknowledge(0), Opened: func(got sdk.Opened) error { o = got; return callerError{} }})
		if err != (callerError{}) {
			c.Errorf("errors of the caller's own callback come back unchanged", "following: got %s", describe(err))
		}
		return o
	}
	if o := opened(nil); o.State != sdk.ProcessRunning || o.StdinGeneration != 0 || o.StdinTaken != 0 {
		c.Errorf("Opened tells where a follower stands", "of a running process, without stdin: %+v", o)
	}
	never, w := io.Pipe()
	defer w.Close()
	defer never.Close()
	first, second := opened(never), opened(never)
	if first.StdinGeneration <= 0 || second.StdinGeneration <= first.StdinGeneration {
		c.Errorf("generations grow", "two followers with stdin have the generations %d and %d", first.StdinGeneration, second.StdinGeneration)
	}
	c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	ended := c.Start(ctx, id, c.Commands.Print("0123456789", ""))
	c.Follow(ctx, id, ended)
	var j Journal
	c.OK(c.W.FollowProcess(ctx, id, ended, 10, j.Into(sdk.Follow{})), "following from the end")
	if j.Opened.State != sdk.ProcessExited {
		c.Errorf("Opened tells where a follower stands", "of an ended process whose output was acknowledged: %+v", j.Opened)
	}
}

func runFollowTwo(ctx context.Context, c *C) {
	id := c.Container(ctx)
	var ps [4]sdk.ProcessID
	for i := range ps {
		ps[i] = c.Start(ctx, id, c.Commands.Gate(fmt.Sprintf("before %d\n", i), fmt.Sprintf("after %d\n", i), i), WithStdin)
	}
	c.Each(ctx, len(ps), len(ps), func(ctx context.Context, i int) {
		j := c.FollowStdin(ctx, id, ps[i], strings.NewReader("go\n"))
		c.WantOutput(j, fmt.Sprintf("before %d\nafter %d\n", i, i), "", "process %d", i)
		c.WantExit(j, i, "process %d", i)
	})
}

func runCancelQuiet(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("", "", 0), WithStdin)
	for _, in := range []io.Reader{nil, neverReader{ctx}} {
		followCtx, cancel := context.WithCancel(ctx)
		err := c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{Stdin: in, Opened: func(sdk.Opened) error { cancel(); return nil }})
		cancel()
		if !isCanceled(err) {
			c.Errorf("a context that has ended ends the call, as context.Canceled", "following a quiet process: got %s", describe(err))
		}
	}
	c.WantExit(c.FollowStdin(ctx, id, p, strings.NewReader("\n")), 0, "the quiet process afterwards")
}

// neverReader has nothing to give as long as the case goes on.
type neverReader struct{ ctx context.Context }

func (n neverReader) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

func runLateFollowers(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Print(pattern0(50_000), "err"))
	c.AwaitExited(ctx, id, p)
	for range 20 { // others come and go meanwhile
		c.Exec(ctx, id, c.Commands.Print("other", ""))
	}
	for i := range 3 {
		j := c.FollowUnacked(ctx, id, p, 0)
		c.WantOutput(j, pattern0(50_000), "err", "follower %d", i+1)
	}
	c.WantOutput(c.Follow(ctx, id, p), pattern0(50_000), "err", "the last follower")
}

// pattern0 is pattern as an argument may be: without NUL.
func pattern0(n int) string {
	return strings.Map(func(r rune) rune { return 'a' + r%26 }, pattern(n)[:n])
}

func runExitUnacked(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Print("x", ""))
	acks := make(chan sdk.Position)
	exited, ended := make(chan struct{}), make(chan error, 1)
	c.Go(func(ctx context.Context) {
		ended <- c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{Acks: acks, Exit: func(sdk.Exit) error { close(exited); return nil }})
	})
	c.Await(ctx, exited, "the exit")
	quick := time.NewTimer(100 * time.Millisecond) // no proof, but what ends at once is caught
	defer quick.Stop()
	select {
	case err := <-ended:
		c.Fatalf("a follower ends once the last position is acknowledged", "it ended before that: %s", describe(err))
	case <-quick.C:
	}
	select {
	case acks <- 1:
	case err := <-ended:
		c.Fatalf("a follower ends once the last position is acknowledged", "it ended before that: %s", describe(err))
	case <-ctx.Done():
		c.Fatalf("the runtime receives acknowledgements until the call returns", "nobody received the last one")
	}
	c.OK(c.AwaitError(ctx, ended, "the follower's end after the last acknowledgement"), "following")
}

func runStdinAnswers(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	in, keyboard := io.Pipe()
	defer in.Close()
	answered := make(chan struct{}, 1)
	var j Journal
	want := 0
	parts := []string{"one", " two\n", "three", "\n\n", "four"}
	c.Go(func(context.Context) {
		defer keyboard.Close()
		for _, part := range parts {
			if _, err := io.WriteString(keyboard, part); err != nil {
				return
			}
			select {
			case <-answered:
			case <-ctx.Done():
				return
			}
		}
	})
	c.OK(c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: in, Output: func([]sdk.Record) error {
		for want < len(parts) && len(j.Stdout) >= len(strings.Join(parts[:want+1], "")) {
			want++
			answered <- struct{}{}
		}
		return nil
	}})), "following cat")
	c.WantOutput(j, strings.Join(parts, ""), "", "a conversation with cat")
	c.WantExit(j, 0, "a conversation with cat")
}

func runStdinTiny(ctx context.Context, c *C) {
	id := c.Container(ctx)
	data := pattern(3000)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	c.WantOutput(c.FollowStdin(ctx, id, p, iotest.OneByteReader(strings.NewReader(data))), data, "", "cat of single bytes")
	p = c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	c.WantOutput(c.FollowStdin(ctx, id, p, iotest.DataErrReader(strings.NewReader(data))), data, "", "cat of bytes that come with their end")
}

func runStdinAhead(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Started(ctx, id, c.Commands.Sleep(), WithStdin) // it never reads
	in := &countingReader{first: make(chan struct{})}
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	c.Go(func(context.Context) {
		ended <- c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{Stdin: in, Acks: acknowledge(0)})
	})
	c.Await(ctx, in.first, "the first read of stdin")
	quick := time.NewTimer(500 * time.Millisecond) // no proof, but what reads on is caught
	defer quick.Stop()
	select {
	case <-quick.C:
	case <-ctx.Done():
	}
	cancel()
	if err := c.AwaitError(ctx, ended, "the end of a follower that was cancelled"); !isCanceled(err) {
		c.Errorf("a context that has ended ends the call, as context.Canceled", "following what reads no stdin: got %s", describe(err))
	}
	const most = sdk.MaxStdinAhead + 1<<20 // and what pipes and the keeper have taken by then
	if n := in.n.Load(); n > most {
		c.Errorf("a follower reads its source no further than what may be sent ahead", "of a process that reads nothing, %d bytes of stdin were read, more than %d", n, most)
	}
}

func runStdinWaits(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 4), WithStdin)
	for range 3 {
		c.AwaitOutput(ctx, id, p, "before\n") // a follower without stdin
	}
	if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
		c.Fatalf("the end of stdin is said, never inferred", "a process that waits for stdin is %s with %s", i.State, exitText(i.Exit))
	}
	j := c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "before\nafter\n", "", "after three followers without stdin")
	c.WantExit(j, 4, "after three followers without stdin")
}

func runStdinAfterwards(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	c.WantOutput(c.FollowUnackedStdin(ctx, id, p, strings.NewReader("all\n")), "all\n", "", "the first follower")
	j := c.FollowStdin(ctx, id, p, strings.NewReader("more\n"))
	c.WantOutput(j, "all\n", "", "a follower with more stdin, after the end")
	c.WantExit(j, 0, "a follower with more stdin, after the end")
}

// FollowUnackedStdin is FollowUnacked from the start, with stdin.
func (c *C) FollowUnackedStdin(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, in io.Reader) Journal {
	var j Journal
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.W.FollowProcess(followCtx, id, p, 0, j.Into(sdk.Follow{Stdin: in, Acks: acknowledge(0), Exit: func(sdk.Exit) error { cancel(); return nil }}))
	if err != nil && !isCanceled(err) {
		c.refused(err, "following process %q with stdin", p)
	}
	return j
}

func runNoNewline(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("name? ", "hello", 0), WithStdin)
	j := c.Converse(ctx, id, p, step{"name? ", "me\n"})
	c.WantOutput(j, "name? hello", "", "a prompt and its answer")
}

func runSilence(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 0), WithStdin)
	in, keyboard := io.Pipe()
	defer in.Close()
	ended := make(chan error, 1)
	said := make(chan struct{})
	var j Journal
	c.Go(func(ctx context.Context) {
		ended <- c.W.FollowProcess(ctx, id, p, 0, j.Into(sdk.Follow{Stdin: in, Output: func([]sdk.Record) error {
			if string(j.Stdout) == "before\n" {
				close(said)
			}
			return nil
		}}))
		in.Close()
	})
	select {
	case <-said:
	case err := <-ended:
		c.Fatalf("a follower goes on as long as its process", "it ended before the first output: %s", describe(err))
	case <-ctx.Done():
		c.Fatalf("output is delivered while the process runs", "the first output did not come")
	}
	pause := time.NewTimer(3 * time.Second) // longer than any grace of the contract
	defer pause.Stop()
	select {
	case err := <-ended:
		c.Fatalf("a follower goes on as long as its process", "it ended after a silence: %s", describe(err))
	case <-pause.C:
	}
	io.WriteString(keyboard, "go\n") // read by the follower, or it has ended
	keyboard.Close()
	c.OK(c.AwaitError(ctx, ended, "the follower's end"), "following a process that was silent")
	c.WantOutput(j, "before\nafter\n", "", "a process that was silent for three seconds")
}

func runBothStreams(ctx context.Context, c *C) {
	id := c.Container(ctx)
	out, errs := pattern0(100_000), strings.ToUpper(pattern0(100_000))
	j := c.Exec(ctx, id, c.Commands.Print(out, errs))
	c.WantOutput(j, out, errs, "stdout first")
	c.WantExit(j, 0, "stdout first")
	for range 5 {
		j := c.Exec(ctx, id, c.Commands.Print("", errs))
		c.WantOutput(j, "", errs, "only stderr")
	}
}

func runSignalsMany(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Started(ctx, id, c.Commands.Trap(sdk.USR1, 9))
	c.Each(ctx, 20, 20, func(ctx context.Context, i int) {
		if err := c.W.SignalProcess(ctx, id, p, sdk.USR1); err != nil { // to a process that may have ended by now
			c.Errorf("signals succeed, to what has ended too", "signal %d of twenty at once: %s", i, describe(err))
		}
	})
	j := c.Follow(ctx, id, p)
	if e := j.Exit; e.Code == 0 || !strings.HasPrefix(string(j.Stdout), "ready\ncaught\n") {
		c.Errorf("a signal reaches the process, which may handle it", "after twenty signals: got %s and %q", exitText(e), j.Stdout)
	}
}

func runOtherSignals(ctx context.Context, c *C) {
	c.preferProbe()
	signals := []sdk.Signal{sdk.USR1, sdk.USR2, sdk.QUIT}
	if _, shell := c.Commands.(Shell); shell && !c.suite.target.Bare {
		signals = signals[:2] // a system's shell ignores QUIT until it has made way for sleep, and nobody sees when that is
		c.Logf("QUIT was not sent: it needs the probe")
	}
	id := c.Container(ctx)
	for _, signal := range signals {
		p := c.Started(ctx, id, c.Commands.Sleep())
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s", signal)
		if e := c.FollowAfter(ctx, signal, id, p).Exit; e.Code != 128+signal.Number() || e.Signal != signal || e.Reason != sdk.ExitSignalled {
			c.Errorf("a process that a signal ended says which", "after %s: got %s, want code %d (signalled by %s)", signal, exitText(e), 128+signal.Number(), signal)
		}
	}
}

func runCont(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 3), WithStdin)
	c.AwaitOutput(ctx, id, p, "before\n")
	for range 3 {
		c.OK(c.W.SignalProcess(ctx, id, p, sdk.CONT), "sending CONT")
	}
	j := c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "before\nafter\n", "", "after three CONT")
	c.WantExit(j, 3, "after three CONT")
}

func runKillWaiting(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for what, start := range map[string]func() sdk.ProcessID{
		"that waits for stdin": func() sdk.ProcessID { return c.Start(ctx, id, c.Commands.Cat(), WithStdin) },
		"whose output is not taken": func() sdk.ProcessID {
			return c.Start(ctx, id, c.Commands.Lines(spillLines), func(s *sdk.ProcessSpec) { s.Spill = spill })
		},
	} {
		p := start()
		c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "killing a process %s", what)
		if e := c.Follow(ctx, id, p).Exit; e.Code != 137 || e.Signal != sdk.KILL {
			c.Errorf("KILL always kills", "a process %s: got %s, want code 137 (signalled by KILL)", what, exitText(e))
		}
	}
}

func runExitTimes(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Exit(3))
	first := *c.Follow(ctx, id, p).Exit
	if first.StartedAt.IsZero() && first.EndedAt.IsZero() {
		c.NotOffered("the plugin tells no times")
	}
	if !first.EndedAt.IsZero() && first.EndedAt.Before(first.StartedAt) {
		c.Errorf("people read these times", "started at %v, ended at %v", first.StartedAt, first.EndedAt)
	}
	c.Exec(ctx, id, c.Commands.Exit(0)) // some time passes
	i, _ := c.Process(ctx, id, p)
	again := c.Follow(ctx, id, p).Exit
	for what, e := range map[string]*sdk.Exit{"the list": i.Exit, "a second follower": again} {
		if e == nil || !e.StartedAt.Equal(first.StartedAt) || !e.EndedAt.Equal(first.EndedAt) {
			c.Errorf("an exit is written once and never changes", "%s has %+v, want %+v", what, e, first)
		}
	}
}

func runManyExits(ctx context.Context, c *C) {
	id := c.Container(ctx)
	want := make(map[sdk.ProcessID]int)
	for i := range 12 {
		want[c.Start(ctx, id, c.Commands.Gate("", "", 20+i), WithStdin)] = 20 + i
	}
	ps := slices.Sorted(maps.Keys(want))
	c.Rand.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
	for _, p := range ps {
		c.WantExit(c.FollowStdin(ctx, id, p, strings.NewReader("\n")), want[p], "a process that was ended out of turn")
	}
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing processes")
	for _, i := range infos {
		if i.Exit == nil || i.Exit.Code != want[i.ID] {
			c.Errorf("the list tells each process's own exit", "process %q: %s, want code %d", i.ID, exitText(i.Exit), want[i.ID])
		}
	}
	if len(infos) != len(want) {
		c.Errorf("the list has all processes", "it has %d, want %d", len(infos), len(want))
	}
}
