package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// terminalCases check processes with a terminal.
func terminalCases() []Case {
	tty, resize, linux := []sdk.Feature{sdk.FeatureTTY}, []sdk.Feature{sdk.FeatureTTY, sdk.FeatureTTYResize}, []Requirement{EnvProbeLinux}
	return []Case{
		{
			ID: "T01-isatty", Title: "with a terminal all three descriptors are it, and stderr comes as stdout; without one none is a terminal", Promises: []string{"5a"}, Level: Must, Profile: Linux, Run: runIsATTY,
			Needs: tty, Env: linux, Doc: "Programs ask before they colour, prompt or draw. A shell without a controlling terminal has no job control.",
		},
		{
			ID: "T02-size", Title: "a terminal begins with the size that was asked for, 80 columns and 24 rows where none was", Promises: []string{"14f"}, Level: Must, Profile: Linux, Run: runTTYSize,
			Needs: tty, Env: linux, Doc: "A size that is set after the start comes too late for what draws at once. With no size, programs draw one column.",
		},
		{
			ID: "T03-resize", Title: "a program hears of each new size, and the last one stays", Promises: []string{"8i"}, Level: Must, Profile: Linux, Run: runResize,
			Needs: resize, Env: linux, Doc: "Whoever drags a window sends many sizes in a row.",
		},
		{
			ID: "T04-resize-refused", Title: "a new size for a process without a terminal is FailedPrecondition, after the exit it does nothing, and zeros mean 80 and 24", Promises: []string{"8i"}, Level: Must, Profile: Linux, Run: runResizeRefused,
			Needs: resize, Env: linux, Doc: "The race with the end is nobody's error, as with signals.",
		},
		{
			ID: "T05-newlines", Title: "a terminal's newlines come as carriage return and newline, and in raw mode nothing is changed in either direction", Promises: []string{"5a", "7a"}, Level: Must, Profile: Linux, Run: runTTYBytes,
			Needs: tty, Env: linux, Doc: "A second line discipline in between, or one that is missing, shows as a staircase or as doubled lines. Editors and file transfers need every byte.",
		},
		{
			ID: "T06-keys", Title: "Ctrl-C interrupts, Ctrl-D and the end of stdin end the input of who reads, in the middle of a line too", Promises: []string{"7b", "8a"}, Level: Must, Profile: Linux, Run: runTTYKeys,
			Needs: tty, Env: linux, Doc: "A terminal has no end that could be closed: whoever only stops writing leaves the reader waiting for ever.",
		},
		{
			ID: "T07-complete-output", Title: "ten thousand lines on a terminal are all there at the exit, a hundred times", Promises: []string{"6c"}, Level: Must, Profile: Linux, Run: runTTYComplete,
			Needs: tty, Env: linux, Timeout: 5 * DefaultTimeout, Doc: "A terminal's near end fails as soon as the far one is closed; whoever takes that for the end before reading what is left loses the last lines, once in many times.",
		},
		{
			ID: "T08-terminal-left", Title: "a child that keeps the terminal open delays the exit by two seconds at most, and what it writes later is thrown away", Promises: []string{"6a"}, Level: Must, Profile: Linux, Run: runTTYOrphan,
			Needs: tty, Env: linux, Timeout: 2 * DefaultTimeout, Doc: "As P13. Somebody who leaves a shell has often left something running in it.",
		},
	}
}

// WithTTY gives a process a terminal of that size.
func WithTTY(columns, rows uint16) func(*sdk.ProcessSpec) {
	return func(s *sdk.ProcessSpec) { s.TTY = &sdk.TTY{Columns: columns, Rows: rows} }
}

// terminals is what the probe says of 0, 1 and 2.
type terminals struct {
	Terminals     []bool
	Columns, Rows int
	Controlled    bool
}

func runIsATTY(ctx context.Context, c *C) {
	id := c.Container(ctx)
	look := c.Probe("seq", "tty", ";", "print", "", "complaint\n")
	for what, with := range map[string][]func(*sdk.ProcessSpec){
		"with a terminal and stdin": {WithTTY(0, 0), WithStdin}, "with a terminal": {WithTTY(0, 0)},
		"without a terminal, with stdin": {WithStdin}, "without a terminal": nil,
	} {
		j := c.Exec(ctx, id, look, with...)
		report, rest, _ := strings.Cut(string(j.Stdout), "\n")
		var got terminals
		if err := json.Unmarshal([]byte(strings.TrimSuffix(report, "\r")), &got); err != nil {
			c.Broken(fmt.Errorf("the probe's terminals, %q: %w", report, err))
		}
		there := strings.HasPrefix(what, "with a terminal")
		if !slices.Equal(got.Terminals, []bool{there, there, there}) || got.Controlled != there {
			c.Errorf("a terminal is one on all three descriptors and controls its process, and without one there is none", "%s: %+v", what, got)
		}
		stdout, stderr := "", "complaint\n"
		if there {
			stdout, stderr = "complaint\r\n", ""
		}
		if rest != stdout || string(j.Stderr) != stderr {
			c.Errorf("what is written to a terminal comes as stdout, and to nothing else as stderr", "%s, stderr came as %q on stdout and %q on stderr, want %q and %q", what, rest, j.Stderr, stdout, stderr)
		}
	}
}

func runTTYSize(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, tt := range []struct {
		columns, rows uint16
		want          string
	}{{0, 0, "24 80"}, {132, 43, "43 132"}, {100, 0, "24 100"}, {0, 50, "50 80"}, {10, 5, "5 10"}, {20000, 10000, "10000 20000"}} {
		j := c.Exec(ctx, id, c.Probe("size"), WithTTY(tt.columns, tt.rows))
		c.WantOutput(j, tt.want+"\r\n", "", "%d columns and %d rows", tt.columns, tt.rows)
	}
}

func runResize(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Probe("resized"), WithTTY(80, 24))
	c.AwaitOutput(ctx, id, p, "ready\r\n")
	resize := func(columns, rows uint16) {
		c.OK(sdk.ResizeProcess(ctx, c.Optional(), id, p, sdk.TTY{Columns: columns, Rows: rows}), "resizing to %d columns and %d rows", columns, rows)
	}
	resize(100, 30)
	c.AwaitText(ctx, id, p, "30 100\r\n")
	resize(90, 20)
	resize(65535, 1)
	resize(120, 40)
	c.AwaitText(ctx, id, p, "40 120\r\n")
	c.OK(c.W.SignalProcess(ctx, id, p, sdk.KILL), "sending KILL")
	if out := string(c.Follow(ctx, id, p).Stdout); !strings.HasSuffix(out, "40 120\r\n") {
		c.Errorf("the last size wins", "after three sizes in a row stdout is %q, want 40 120 at its end", out)
	}
}

func runResizeRefused(ctx context.Context, c *C) {
	id := c.Container(ctx)
	w := c.Optional()
	plain := c.Started(ctx, id, c.Commands.Sleep())
	c.WantClass(sdk.ResizeProcess(ctx, w, id, plain, sdk.TTY{Columns: 10, Rows: 10}), sdk.FailedPrecondition, "a process has a terminal from its start or never", "resizing a process without a terminal")
	c.WantNotFound(sdk.ResizeProcess(ctx, w, id, c.ProcessID(), sdk.TTY{}), sdk.KindProcess, "it was never started", "resizing a process that is not there")
	c.WantNotFound(sdk.ResizeProcess(ctx, w, c.ContainerID(), plain, sdk.TTY{}), sdk.KindContainer, "what was not found is named", "resizing in a container that is not there")

	p := c.Start(ctx, id, c.Probe("seq", "print", "ready\n", ";", "line", ";", "size"), WithTTY(132, 43), WithStdin)
	c.AwaitOutput(ctx, id, p, "ready\r\n")
	c.OK(sdk.ResizeProcess(ctx, w, id, p, sdk.TTY{}), "resizing to zeros")
	j := c.FollowStdin(ctx, id, p, strings.NewReader("\n"))
	if out := string(j.Stdout); !strings.HasSuffix(out, "\r\n24 80\r\n") {
		c.Errorf("zeros mean what they mean at the start", "resized to zeros, stdout is %q, want 24 80 at its end", out)
	}
	ended := c.Start(ctx, id, c.Commands.Exit(0))
	c.Follow(ctx, id, ended)
	for what, p := range map[string]sdk.ProcessID{"with": p, "without": ended} {
		c.OK(sdk.ResizeProcess(ctx, w, id, p, sdk.TTY{Columns: 5, Rows: 5}), "resizing a process %s a terminal that has ended", what)
	}
}

func runTTYBytes(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Print("a\n\nb\tc\r\nd", "e\n"), WithTTY(0, 0)), "a\r\n\r\nb\tc\r\r\nde\r\n", "", "newlines on a terminal")

	p := c.Start(ctx, id, c.Probe("seq", "print", "ready\n", ";", "line", "got [", "]\n"), WithTTY(0, 0), WithStdin)
	j := c.Converse(ctx, id, p, step{"ready\r\n", "typed\r"}) // as the key sends it
	c.WantOutput(j, "ready\r\ntyped\r\ngot [typed]\r\n", "", "a typed line, which the terminal shows")

	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	raw := c.Start(ctx, id, c.Probe("seq", "raw", ";", "print", "ready\n", ";", "take", "512"), WithTTY(0, 0), WithStdin)
	j = c.Converse(ctx, id, raw, step{"ready\n", string(all)}, step{string(all), string(all)})
	c.WantOutput(j, "ready\n"+string(all)+string(all), "", "all bytes through a terminal in raw mode")
	c.WantExit(j, 0, "all bytes through a terminal in raw mode")

	lines := c.Start(ctx, id, c.Probe("seq", "noecho", ";", "print", "ready\n", ";", "cat"), WithTTY(0, 0), WithStdin)
	j = c.Converse(ctx, id, lines, step{"ready\r\n", numbers(1, 20_000)}, step{"\r\n20000\r\n", ""})
	c.WantOutput(j, "ready\r\n"+strings.ReplaceAll(numbers(1, 20_000), "\n", "\r\n"), "", "twenty thousand lines through a terminal")
}

func runTTYKeys(ctx context.Context, c *C) {
	id := c.Container(ctx)
	with := func(verbs []string, steps ...step) Journal {
		p := c.Start(ctx, id, c.Probe(slices.Concat([]string{"seq", "noecho", ";"}, verbs)...), WithTTY(0, 0), WithStdin)
		return c.Converse(ctx, id, p, steps...)
	}
	j := with([]string{"trap", "INT", "7"}, step{"ready\r\n", "\x03"})
	c.WantExit(j, 7, "a program that handles Ctrl-C")
	c.WantOutput(j, "ready\r\ncaught\r\n", "", "a program that handles Ctrl-C")
	j = with([]string{"sleep"}, step{"ready\r\n", "\x03"})
	if e := j.Exit; e.Code != 130 || e.Signal != sdk.INT || e.Reason != sdk.ExitSignalled {
		c.Errorf("Ctrl-C interrupts", "after Ctrl-C: got %s, want code 130 (signalled by INT)", exitText(e))
	}
	for _, tt := range []struct {
		what  string
		steps []step
		want  string
	}{
		{"Ctrl-D at the start of a line", []step{{"ready\r\n", "one\n\x04"}}, "ready\r\none\r\nend\r\n"},
		{"Ctrl-D twice in the middle of a line", []step{{"ready\r\n", "one\x04\x04"}}, "ready\r\noneend\r\n"},
		{"the end of stdin at once", []step{{"ready\r\n", ""}}, "ready\r\nend\r\n"},
		{"the end of stdin at the start of a line", []step{{"ready\r\n", "two\n"}, {"two\r\n", ""}}, "ready\r\ntwo\r\nend\r\n"},
		{"the end of stdin in the middle of a line", []step{{"ready\r\n", "two\nthree"}, {"two\r\n", ""}}, "ready\r\ntwo\r\nthreeend\r\n"},
	} {
		j := with([]string{"print", "ready\n", ";", "cat", ";", "print", "end\n"}, tt.steps...)
		c.WantOutput(j, tt.want, "", "%s", tt.what)
		c.WantExit(j, 0, "%s", tt.what)
	}
	c.WantOutput(c.Exec(ctx, id, c.Probe("seq", "cat", ";", "print", "end\n"), WithTTY(0, 0)), "end\r\n", "", "cat on a terminal, without stdin")
}

func runTTYComplete(ctx context.Context, c *C) {
	id := c.Container(ctx)
	want := strings.ReplaceAll(numbers(1, 10_000), "\n", "\r\n")
	c.Each(ctx, c.Times(100), 4, func(ctx context.Context, i int) {
		j := c.Exec(ctx, id, c.Commands.Lines(10_000), WithTTY(0, 0))
		c.WantOutput(j, want, "", "time %d", i+1)
		c.WantExit(j, 0, "time %d", i+1)
		if j.Exit.OutputCut {
			c.Errorf("output is only cut where something holds it open", "time %d: its output was cut", i+1)
		}
	})
}

func runTTYOrphan(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, tt := range []struct {
		what  string
		verbs []string
		steps []step
		want  string
	}{
		{"that ignores the hangup", []string{"ignore", "HUP", ";", "orphan"}, nil, "early\r\n"},
		{"in a session of its own", []string{"spawn", "session", "inner", "print", "up\n", ",", "nap", "3600000", ",", "print", "late\n", ";", "line", ";", "print", "early\n"},
			[]step{{"up\r\n", "go\n"}}, "up\r\nearly\r\n"},
	} {
		p := c.Start(ctx, id, c.Probe(slices.Concat([]string{"seq", "noecho", ";"}, tt.verbs)...), WithTTY(0, 0), WithStdin)
		j := c.Converse(ctx, id, p, tt.steps...)
		c.WantExit(j, 0, "a leader that leaves a child %s", tt.what)
		c.WantOutput(j, tt.want, "", "a leader that leaves a child %s", tt.what)
	}
}
