package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// processCases check how processes start, run and end.
func processCases() []Case {
	return []Case{
		{
			ID: "P01-run-true", Title: "a program that does nothing exits with 0 and no output", Promises: []string{"6d"}, Level: Must, Profile: Core, Run: runTrue,
			Doc: "The first thing to get right.",
		},
		{
			ID: "P02-exec-missing", Title: "a program that is not there is Invalid with executable-not-found, and leaves no record", Promises: []string{"11f", "1i"}, Level: Must, Profile: Core, Run: runExecMissing,
			Doc: "Codes 126 and 127 are the program's to use: a host that has to guess tells the user the wrong thing. The id must stay free for the same start with the right path.",
		},
		{
			ID: "P03-exec-bad", Title: "a file without execute permission, and a directory, are Invalid with not-executable", Promises: []string{"11f"}, Level: Must, Profile: Core, Run: runExecBad,
			Doc: "As P02.",
		},
		{
			ID: "P04-args-exact", Title: "arguments come byte for byte", Promises: []string{"11e"}, Level: Must, Profile: Core, Run: runArgs,
			Doc: "A backend that takes a command line, not a list, needs quoting that nobody gets right at first.",
		},
		{
			ID: "P05-args-bounds", Title: "an argument of 100 KiB is taken; beyond the contract's bound a start is Invalid and leaves no record", Promises: []string{"11e", "1i"}, Level: Must, Profile: Core, Run: runArgsBounds,
			Doc: "What does not fit a message or the kernel's bound must be said, not cut.",
		},
		{
			ID: "P08-other-token", Title: "starting under the id of another token is AlreadyExists and leaves the first process alone", Promises: []string{"1d"}, Level: Must, Profile: Core, Run: runStartOtherToken,
			Doc: "Two hosts, or two steps, must not take each other's process for their own.",
		},
		{
			ID: "P09-many", Title: "fifty processes at once in one container never mix their output or codes", Promises: []string{"5l"}, Level: Must, Profile: Core, Run: runMany,
			Doc: "Anything that is kept for a container instead of a process shows here.",
		},
		{
			ID: "P12-cancel-leaves", Title: "ending the context of StartProcess or FollowProcess leaves the process alone", Promises: []string{"2c"}, Level: Must, Profile: Core, Run: runCancelLeaves,
			Doc: "A host that restarts drops all its calls. The work goes on, and the next host follows it.",
		},
		{
			ID: "P13-orphan-holds-output", Title: "a child that keeps the output open delays the exit by two seconds at most, and what it writes later is thrown away",
			Promises: []string{"6a"}, Level: Must, Profile: Core, Run: runOrphan,
			Doc: "Waiting for the end of the pipes waits for every daemon that a script leaves behind.",
		},
		{
			ID: "P16-env-hygiene", Title: "a process sees the environment that it was given, and neither the plugin's nor another process's", Promises: []string{"13c"}, Level: Must, Profile: Isolation, Run: runEnvHygiene,
			Doc: "The plugin's environment holds its secrets.",
		},
		{
			ID: "P18-env", Title: "environment variables come byte for byte, and of two of one name the last", Promises: []string{"13a", "13d", "13i"}, Level: Must, Profile: Core, Run: runEnv,
			Doc: "Values with newlines, quotes and equals signs are usual: keys and certificates. Programs differ in which of two variables of one name they take.",
		},
		{
			ID: "P20-start-once", Title: "however often a start is repeated with its id and token, it runs once", Promises: []string{"3a"}, Level: Must, Profile: Core, Run: runStartOnce,
			Doc: "The promise that all of a host's recovery stands on. It holds while the process runs, at the same moment from several callers, and after it has ended and its output was acknowledged.",
		},
		{
			ID: "P21-list", Title: "the list tells running and exited processes with their tokens and exits", Promises: []string{"3c"}, Level: Must, Profile: Core, Run: runListProcesses,
			Doc: "After a restart a host knows nothing else.",
		},
		{
			ID: "P22-max-processes", Title: "a container takes 4,096 processes and refuses the next with the reason processes", Promises: []string{"6g"}, Level: Must, Profile: Core, Run: runMaxProcesses,
			Exclusive: true, Timeout: 15 * time.Minute,
			Doc: "A tombstone for each is kept as long as the container lives: without a bound it grows for ever, and below the contract's bound a host is refused what it was promised.",
		},
		{
			ID: "X01-codes", Title: "all exit codes from 0 to 255 come as they are", Promises: []string{"6d"}, Level: Must, Profile: Core, Run: runCodes, Timeout: 2 * time.Minute,
			Doc: "Codes above 127 are codes too.",
		},
		{
			ID: "S01-trap", Title: "a signal reaches the process, which may handle it", Promises: []string{"8a"}, Level: Must, Profile: Core, Run: runTrap,
			Doc: "A graceful stop is TERM and a wait.",
		},
		{
			ID: "S02-unknown-signal", Title: "a signal outside the contract is Invalid with the reason signal and does nothing", Promises: []string{"8d"}, Level: Must, Profile: Core, Run: runUnknownSignal,
			Doc: "Numbers of signals differ between systems, and an empty name must not become number 0.",
		},
		{
			ID: "S04-signal-after-exit", Title: "signalling a process that has ended succeeds and changes nothing", Promises: []string{"8c"}, Level: Must, Profile: Core, Run: runSignalAfterExit,
			Doc: "The race between a stop and the end is nobody's error; and the process's number may be another's by now.",
		},
		{
			ID: "S11-signalled", Title: "a process that a signal ended says so: 128 plus the number, and the signal's name", Promises: []string{"6d"}, Level: Must, Profile: Core, Run: runSignalled,
			Doc: "A killed process that exits with 0 is a step that succeeded.",
		},
		{
			ID: "S12-kill-at-once", Title: "a process that is killed right after its start ends, and not with 0", Promises: []string{"8b"}, Level: Must, Profile: Core, Run: runKillAtOnce,
			Doc: "Between the answer to the start and the first instruction there is a moment in which a signal can get lost.",
		},
	}
}

func runTrue(ctx context.Context, c *C) {
	id := c.Container(ctx)
	j := c.Exec(ctx, id, c.Commands.Exit(0))
	c.WantExit(j, 0, "a program that does nothing")
	c.WantOutput(j, "", "", "a program that does nothing")
	if e := j.Exit; !e.EndedAt.IsZero() && e.EndedAt.Before(e.StartedAt) { // the zero time is unknown
		c.Errorf("people read these times", "started at %v, ended at %v", j.Exit.StartedAt, j.Exit.EndedAt)
	}
}

func runExecMissing(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, path := range []string{"no-such-program-anywhere", "/no/such/program", "./no-such-program"} {
		spec := c.Spec(Cmd{Path: path})
		err := c.W.StartProcess(ctx, id, spec)
		c.WantReason(err, sdk.Invalid, sdk.ReasonExecutableNotFound, "a host fails the step at once and names the cause", "starting %q", path)
		if _, ok := c.Process(ctx, id, spec.ID); ok {
			c.Errorf("a start that was Invalid leaves no record", "the process that could not start is listed")
		}
		c.WantNotFound(c.W.FollowProcess(ctx, id, spec.ID, 0, sdk.Follow{}), sdk.KindProcess, "it was never started", "following what could not start")
		good := c.Commands.Print("now", "")
		spec.Path, spec.Args = good.Path, good.Args
		c.OK(c.W.StartProcess(ctx, id, spec), "starting with the same id and token and a program that is there")
		c.WantOutput(c.Follow(ctx, id, spec.ID), "now", "", "the start after one that was Invalid")
	}
}

func runExecBad(ctx context.Context, c *C) {
	v := c.Filled(ctx, File("data", "#!/bin/sh\nexit 0\n"), Dir("dir"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	for _, path := range []string{"/v/data", "/v/dir"} {
		spec := c.Spec(Cmd{Path: path})
		err := c.W.StartProcess(ctx, id, spec)
		c.WantReason(err, sdk.Invalid, sdk.ReasonNotExecutable, "a host fails the step at once and names the cause", "starting %q", path)
		if _, ok := c.Process(ctx, id, spec.ID); ok {
			c.Errorf("a start that was Invalid leaves no record", "the process that could not start is listed")
		}
	}
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(3)), 3, "the container afterwards")
}

func runArgs(ctx context.Context, c *C) {
	id := c.Container(ctx)
	args := []string{"", "a b", " ", "'", `"`, `\`, `\\`, "$HOME", "${X}", "$(echo x)", "`echo x`", "*", "?", "[a]", "{a,b}", "~", "#", "!", "&", "|", ";", "<", ">",
		"a\nb", "a\tb", "a\rb", "-n", "--", "-c", "%s", "%d\\n", "ünï", "日本語", "\x01\x7f", "\xff\xfe", strings.Repeat("x", 5000)}
	var want strings.Builder
	for _, a := range args {
		want.WriteString("[" + a + "]\n")
	}
	c.WantOutput(c.Exec(ctx, id, c.Commands.Args(args...)), want.String(), "", "%d arguments", len(args))
}

func runArgsBounds(ctx context.Context, c *C) {
	id := c.Container(ctx)
	big := pattern(100 << 10)
	big = strings.Map(func(r rune) rune { return 'a' + r%26 }, big)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Args(big)), "["+big+"]\n", "", "an argument of %d bytes", len(big))
	for what, more := range map[string][]string{
		"more arguments than the bound": {strings.Repeat("x", sdk.MaxArgBytes)},
		"300,000 empty arguments":       make([]string, 300_000), // nine bytes each
	} {
		spec := c.Spec(c.Commands.Exit(0), func(s *sdk.ProcessSpec) { s.Args = append(slices.Clone(s.Args), more...) })
		c.WantReason(c.W.StartProcess(ctx, id, spec), sdk.Invalid, sdk.ReasonTooLarge, "what cannot fit is told as such", "a start with %s", what)
		if _, ok := c.Process(ctx, id, spec.ID); ok {
			c.Errorf("a start that was Invalid leaves no record", "the process with %s is listed", what)
		}
	}
	for what, with := range map[string]func(*sdk.ProcessSpec){
		"a NUL in an argument":     func(s *sdk.ProcessSpec) { s.Args = append(s.Args, "a\x00b") },
		"no path":                  func(s *sdk.ProcessSpec) { s.Path = "" },
		"a relative dir":           func(s *sdk.ProcessSpec) { s.Dir = "x" },
		"an environment without =": func(s *sdk.ProcessSpec) { s.Env = []string{"NAME"} },
		"a negative spill":         func(s *sdk.ProcessSpec) { s.Spill = -1 },
		"an unknown policy":        func(s *sdk.ProcessSpec) { s.WhenFull = 9 },
	} {
		spec := c.Spec(c.Commands.Exit(0), with)
		c.WantClass(c.W.StartProcess(ctx, id, spec), sdk.Invalid, "what can never work is refused, not cut", "a start with %s", what)
		if _, ok := c.Process(ctx, id, spec.ID); ok {
			c.Errorf("a start that was Invalid leaves no record", "the process with %s is listed", what)
		}
	}
}

func runStartOtherToken(ctx context.Context, c *C) {
	id := c.Container(ctx)
	spec := c.Spec(c.Commands.Gate("first\n", "done\n", 7), WithStdin)
	c.OK(c.W.StartProcess(ctx, id, spec), "starting")
	c.AwaitOutput(ctx, id, spec.ID, "first\n")
	other := c.Spec(c.Commands.Print("second", ""))
	other.ID = spec.ID
	const why = "success would say that the other one's process is mine"
	c.WantClass(c.W.StartProcess(ctx, id, other), sdk.AlreadyExists, why, "starting under the id of a running process")
	j := c.FollowStdin(ctx, id, spec.ID, strings.NewReader("go\n"))
	c.WantExit(j, 7, "the first process")
	c.WantOutput(j, "first\ndone\n", "", "the first process")
	c.WantClass(c.W.StartProcess(ctx, id, other), sdk.AlreadyExists, why, "starting under the id of a process that has ended")
	if i, ok := c.Process(ctx, id, spec.ID); !ok || i.Token != spec.Token {
		c.Errorf("the first process is left alone", "its token is %q (listed: %v), want %q", i.Token, ok, spec.Token)
	}
}

func runMany(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Each(ctx, 50, 50, func(ctx context.Context, i int) {
		line := strings.Repeat(fmt.Sprintf("%02d.", i), 200)
		if i%2 == 0 {
			c.WantOutput(c.Exec(ctx, id, c.Commands.Print(line, line+"e")), line, line+"e", "process %d", i)
			return
		}
		j := c.Exec(ctx, id, c.Commands.Gate(line, "", i))
		c.WantOutput(j, line, "", "process %d", i)
		c.WantExit(j, i, "process %d", i)
	})
}

func runCancelLeaves(ctx context.Context, c *C) {
	id := c.Container(ctx)
	spec := c.Spec(c.Commands.Gate("before\n", "after\n", 5), WithStdin)
	startCtx, cancelStart := context.WithCancel(ctx)
	c.OK(c.W.StartProcess(startCtx, id, spec), "starting")
	cancelStart()

	for range 3 {
		followCtx, cancel := context.WithCancel(ctx)
		var j Journal
		err := c.W.FollowProcess(followCtx, id, spec.ID, 0, j.Into(sdk.Follow{
			Acks:   make(chan sdk.Position),
			Output: func([]sdk.Record) error { cancel(); return nil },
		}))
		cancel()
		if !isCanceled(err) {
			c.Errorf("a context that has ended ends the call, as context.Canceled", "a cancelled follower: got %s", describe(err))
		}
		if i, _ := c.Process(ctx, id, spec.ID); i.State != sdk.ProcessRunning {
			c.Fatalf("cancelling leaves the process alone", "the process is %s after its follower was cancelled", i.State)
		}
	}
	j := c.FollowStdin(ctx, id, spec.ID, strings.NewReader("go\n"))
	c.WantExit(j, 5, "after three cancelled followers")
	c.WantOutput(j, "before\nafter\n", "", "after three cancelled followers")
}

func runOrphan(ctx context.Context, c *C) {
	id := c.Container(ctx)
	j := c.Exec(ctx, id, c.Commands.Orphan()) // whose child holds the output longer than the case may take
	c.WantExit(j, 0, "a leader that leaves a child")
	c.WantOutput(j, "early\n", "", "a leader that leaves a child")
	if !j.Exit.OutputCut {
		c.Errorf("output that was cut is told from output that has ended", "a leader that leaves a child with its output: the output is not said to be cut")
	}
}

func runEnvHygiene(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Exec(ctx, id, c.Commands.Env("CF_SECRET"), func(s *sdk.ProcessSpec) { s.Env = []string{"CF_SECRET=mine"} })
	for _, name := range []string{"CF_SECRET", "SLIPWAY_PLUGIN", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR", "GOROOT", "GOCOVERDIR"} {
		c.WantOutput(c.Exec(ctx, id, c.Commands.Env(name)), "unset\n", "", "the variable %s, which nobody gave", name)
	}
}

func runEnv(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, value := range []string{"", "x", "a b", "a=b=c", "'\"`$HOME$(x)", "line\nline\n", "ünï 日本", "\\n%s", strings.Repeat("v", 20_000)} {
		j := c.Exec(ctx, id, c.Commands.Env("CF_NAME"), func(s *sdk.ProcessSpec) { s.Env = []string{"OTHER=1", "CF_NAME=" + value, "LAST="} })
		c.WantOutput(j, "["+value+"]\n", "", "a value of %d bytes", len(value))
	}
	twice := c.Exec(ctx, id, c.Commands.Env("CF_NAME"), func(s *sdk.ProcessSpec) {
		s.Env = []string{"CF_NAME=first", "CF_NAMED=other", "CF_NAME=last", "OTHER=1"}
	})
	c.WantOutput(twice, "[last]\n", "", "a variable that comes twice")
	secret := "hush-" + string(sdk.NewToken())
	spec := c.Spec(Cmd{Path: "/no/such/program"}, func(s *sdk.ProcessSpec) { s.Env = []string{"CF_SECRET=" + secret} })
	if err := c.W.StartProcess(ctx, id, spec); err != nil && strings.Contains(err.Error(), secret) {
		c.Errorf("environment is never put into an error: errors end up in logs", "the error of a start holds a value of its environment")
	}
}

func runStartOnce(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	spec := c.Spec(c.Commands.Append("/v/runs", "run\n"))
	c.Each(ctx, 10, 10, func(ctx context.Context, i int) {
		c.OK(c.W.StartProcess(ctx, id, spec), "starting, one of ten at once")
	})
	j := c.Follow(ctx, id, spec.ID)
	c.WantOutput(j, "run\n", "", "ten starts at once")
	for i := range 5 {
		c.OK(c.W.StartProcess(ctx, id, spec), "starting again after the end, time %d", i+1)
	}
	var again Journal
	c.OK(c.W.FollowProcess(ctx, id, spec.ID, j.End, again.Into(sdk.Follow{})), "following again from the end")
	if again.Exit == nil || !sameExit(*again.Exit, *j.Exit) {
		c.Errorf("an exit is written once and never changes", "the exit is %s after more starts, and was %s", exitText(again.Exit), exitText(j.Exit))
	}
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing processes")
	if len(infos) != 1 {
		c.Errorf("one id and token is one process", "%d processes are listed, want 1", len(infos))
	}
	// Whatever ran beside the one that was asked for has to get the chance to show: a second process, started now, comes
	// after it.
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(0)), 0, "another process")
	if runs := find(c.Tree(ctx, v, ""), "runs"); runs.Data != "run\n" {
		c.Errorf("a start with an id and token that ran never runs again", "the file that each run appends a line to is %q, want %q", runs.Data, "run\n")
	}
}

func runListProcesses(ctx context.Context, c *C) {
	id := c.Container(ctx)
	done := c.Spec(c.Commands.Exit(9))
	c.OK(c.W.StartProcess(ctx, id, done), "starting")
	c.Follow(ctx, id, done.ID)
	running := c.Spec(c.Commands.Sleep())
	c.OK(c.W.StartProcess(ctx, id, running), "starting")
	c.AwaitOutput(ctx, id, running.ID, "ready\n")

	i, ok := c.Process(ctx, id, done.ID)
	if !ok || i.Token != done.Token || i.State != sdk.ProcessExited || i.Exit == nil || i.Exit.Code != 9 || i.Exit.Reason != sdk.ExitExited {
		c.Errorf("what has ended is listed with its exit", "listed: %v, token %q, %s, %s; want %q, exited, code 9", ok, i.Token, i.State, exitText(i.Exit), done.Token)
	}
	i, ok = c.Process(ctx, id, running.ID)
	if !ok || i.Token != running.Token || i.State != sdk.ProcessRunning || i.Exit != nil {
		c.Errorf("what runs is listed without an exit", "listed: %v, token %q, %s, %s; want %q, running, no exit", ok, i.Token, i.State, exitText(i.Exit), running.Token)
	}
}

func runCodes(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Each(ctx, 256, 8, func(ctx context.Context, i int) {
		c.WantExit(c.Exec(ctx, id, c.Commands.Exit(i)), i, "exit %d", i)
	})
}

func runTrap(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, signal := range []sdk.Signal{sdk.TERM, sdk.HUP, sdk.INT, sdk.USR1} {
		p := c.Started(ctx, id, c.Commands.Trap(signal, 7))
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s", signal)
		j := c.FollowAfter(ctx, signal, id, p)
		c.WantExit(j, 7, "a process that handles %s", signal)
		c.WantOutput(j, "ready\ncaught\n", "", "a process that handles %s", signal)
	}
}

func runUnknownSignal(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Started(ctx, id, c.Commands.Sleep())
	for _, signal := range []sdk.Signal{"", "SIGTERM", "term", "9", "0", "WINCH", "NOPE"} {
		c.WantReason(c.W.SignalProcess(ctx, id, p, signal), sdk.Invalid, sdk.ReasonSignal, "only the contract's names mean the same everywhere", "sending %q", signal)
	}
	if i, _ := c.Process(ctx, id, p); i.State != sdk.ProcessRunning {
		c.Errorf("a refused signal does nothing", "the process is %s", i.State)
	}
}

func runSignalAfterExit(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Exit(4))
	j := c.Follow(ctx, id, p)
	for _, signal := range []sdk.Signal{sdk.TERM, sdk.KILL} {
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s after the exit", signal)
	}
	i, ok := c.Process(ctx, id, p)
	if !ok || i.Exit == nil || !sameExit(*i.Exit, *j.Exit) {
		c.Errorf("an exit never changes", "listed: %v, with %s, want %s", ok, exitText(i.Exit), exitText(j.Exit))
	}
}

func runSignalled(ctx context.Context, c *C) {
	id := c.Container(ctx, c.seenInside)
	before := c.sleepers(ctx, id)
	for _, signal := range []sdk.Signal{sdk.KILL, sdk.TERM, sdk.HUP, sdk.INT} {
		p := c.Started(ctx, id, c.Commands.Sleep())
		if n := c.sleepers(ctx, id) - before; n > 1 {
			c.Broken(fmt.Errorf("after \"ready\" Commands.Sleep is %d processes: they would share %s, and what comes of that is chance", n, signal))
		}
		c.OK(c.W.SignalProcess(ctx, id, p, signal), "sending %s", signal)
		j, code := c.FollowAfter(ctx, signal, id, p), 128+signal.Number()
		if e := j.Exit; e.Code != code || e.Signal != signal || e.Reason != sdk.ExitSignalled {
			c.Errorf("a process that a signal ended is told apart from one that chose a code", "after %s: got %s, want code %d (signalled by %s)", signal, exitText(e), code, signal)
		}
		if i, _ := c.Process(ctx, id, p); i.Exit == nil || !sameExit(*i.Exit, *j.Exit) {
			c.Errorf("the list tells the same exit", "after %s the list has %s, the follower got %s", signal, exitText(i.Exit), exitText(j.Exit))
		}
	}
	p := c.Started(ctx, id, c.Commands.Trap(sdk.TERM, 0))
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "sending KILL")
	if e := c.FollowAfter(ctx, sdk.KILL, id, p).Exit; e.Code != 137 || e.Signal != sdk.KILL {
		c.Errorf("KILL cannot be handled", "a process that handles TERM, after KILL: got %s, want code 137 (signalled by KILL)", exitText(e))
	}
}

func runKillAtOnce(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.Each(ctx, c.Times(50), 8, func(ctx context.Context, i int) {
		p := c.Start(ctx, id, c.Commands.Sleep())
		c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "killing")
		if e := c.Follow(ctx, id, p).Exit; e.Code != 137 || e.Signal != sdk.KILL {
			c.Errorf("KILL always kills", "killed right after its start: got %s, want code 137 (signalled by KILL)", exitText(e))
		}
	})
}

func runMaxProcesses(ctx context.Context, c *C) {
	c.TooLong()
	id := c.Container(ctx)
	first := c.Start(ctx, id, c.Commands.Exit(3))
	c.WantExit(c.Follow(ctx, id, first), 3, "the first process")
	c.Each(ctx, sdk.MaxProcesses-1, 8, func(ctx context.Context, i int) {
		if !c.Failed() {
			c.Exec(ctx, id, c.Commands.Exit(0))
		}
	})
	if c.Failed() {
		return
	}
	one := c.Spec(c.Commands.Exit(0))
	err := c.W.StartProcess(ctx, id, one)
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonProcesses, "the bound is the contract's, and said as such", "starting process %d", sdk.MaxProcesses+1)
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing processes")
	if len(infos) != sdk.MaxProcesses {
		c.Errorf("all are kept as long as the container lives", "%d processes are listed, want %d", len(infos), sdk.MaxProcesses)
	}
	if i, ok := c.Process(ctx, id, first); !ok || i.Exit == nil || i.Exit.Code != 3 {
		c.Errorf("an exit is kept as long as the container lives", "the first process: listed %v, %s, want code 3", ok, exitText(i.Exit))
	}
}
