package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// gate is one run.
type gate struct {
	out    io.Writer
	goTest func(args ...string) *exec.Cmd // go test, telling its events
	repeat int                            // so many failed tests are repeated, no more
	strict bool                           // only allowed reasons to skip
	grace  time.Duration                  // for what the tests started, after them

	tests *testjson.Execution // what all stages told so far
	flags map[string][]string // by package, those of its stage
	flaky []testjson.TestCase
}

func goTest(args ...string) *exec.Cmd {
	cmd := exec.Command("go", append([]string{"test", "-json", "-count=1"}, args...)...)
	if slices.Contains(args, "-race") { // which needs cgo, whatever the others do without
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	}
	return cmd
}

// run reports whether the change may land, and says why not. The stages run side by side after the command first; meanwhile is done before the last one.
func (g *gate) run(ctx context.Context, stages []string, first, meanwhile string) bool {
	var commands []command
	var defects []string
	for _, stage := range stages {
		args := strings.Fields(stage)
		first := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
		if first < 0 {
			g.say("FAIL: %q names no package, or a flag is apart from its value: write -flag=value", stage)
			return false
		}
		commands = append(commands, command{args: args, flags: args[:first]})
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	done := g.background(ctx, meanwhile)
	commands[len(commands)-1].after = done
	err := g.shell(ctx, first, g.out)
	if err != nil {
		end()
		_ = done() // it was ended
		g.say("FAIL: %v", err)
		return false
	}
	if g.tests, err = g.scan(ctx, g.show(), commands...); err != nil {
		defects = append(defects, err.Error())
	}
	defects = append(defects, g.defects()...)
	failed := testjson.FilterFailedUnique(g.tests.Failed())
	switch {
	case len(failed) == 0 || ctx.Err() != nil:
	case len(defects) > 0:
		g.say("\nno failed test is repeated after that: %s", strings.Join(defects, "; "))
	case len(failed) > g.repeat:
		g.say("\n%d tests failed: that is no chance, none is repeated", len(failed))
	default:
		failed = g.again(ctx, failed)
	}
	if g.tests.Total() == 0 {
		defects = append(defects, "no test ran")
	}
	defects = append(defects, g.skips()...)
	return g.verdict(failed, defects)
}

// lastLines are shown of a package that ended by itself, not by a test that failed: there, whoever crashed has said why.
const lastLines = 200

// show prints a line for each package as it ends, and what a test printed once it has failed.
func (g *gate) show() eventFunc {
	lines := testjson.NewEventFormatter(g.out, "standard-quiet", testjson.FormatOptions{})
	last := make(map[string][]string)
	return func(e testjson.TestEvent, x *testjson.Execution) error {
		switch {
		case e.Action == testjson.ActionOutput:
			all := append(last[e.Package], e.Output)
			last[e.Package] = all[max(0, len(all)-lastLines):]
		case e.Action == testjson.ActionFail && !e.PackageEvent():
			g.output(x, x.Package(e.Package).LastFailedByName(e.Test))
		case e.Action == testjson.ActionFail && len(x.Package(e.Package).Failed) == 0:
			g.say("\n%s ended, and no test had failed. The last lines that it printed:", e.Package)
			io.WriteString(g.out, strings.Join(last[e.Package], ""))
		case e.PackageEvent() && e.Action.IsTerminal():
			delete(last, e.Package)
		}
		return lines.Format(e, x)
	}
}

// output prints what a test printed, without the lines that tell when it ran.
func (g *gate) output(x *testjson.Execution, tc testjson.TestCase) {
	for _, line := range x.OutputLines(tc) {
		if !strings.HasPrefix(line, "=== ") {
			io.WriteString(g.out, line)
		}
	}
}

// again repeats tests and returns those that failed again. The others are flaky.
func (g *gate) again(ctx context.Context, failed []testjson.TestCase) (still []testjson.TestCase) {
	for _, tc := range failed {
		g.say("\nrepeating %s.%s", tc.Package, tc.Test)
		flags := g.flags[tc.Package]
		x, err := g.scan(ctx, g.show(), command{args: append(slices.Clone(flags), "-run="+pattern(tc.Test), tc.Package), flags: flags})
		if err != nil {
			g.say("%v", err)
		}
		if err != nil || !passed(x, tc) {
			still = append(still, tc)
		} else {
			g.flaky = append(g.flaky, tc)
		}
	}
	return still
}

// pattern matches one test or subtest.
func pattern(name testjson.TestName) string {
	parts := strings.Split(name.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// passed reports whether a repeat ran the test, and nothing in it went wrong.
func passed(x *testjson.Execution, tc testjson.TestCase) bool {
	p := x.Package(tc.Package)
	return p != nil && p.Result() == testjson.ActionPass && !x.HasPanic() && !x.HasDataRace() && len(x.Errors()) == 0 &&
		slices.ContainsFunc(p.Passed, func(one testjson.TestCase) bool { return one.Test == tc.Test })
}

// command is one go test that is to run.
type command struct {
	args, flags []string     // the flags stand at the beginning of args
	after       func() error // what is waited for first, if not nil
}

// scan runs commands side by side and reads what they tell. An error means that one could not be run, or told no results; failed tests
// are none.
func (g *gate) scan(ctx context.Context, event eventFunc, commands ...command) (*testjson.Execution, error) {
	results, stdout := io.Pipe()
	remarks, stderr := io.Pipe()
	var mu sync.Mutex
	var running sync.WaitGroup
	ends := make([]error, len(commands))
	for i, c := range commands {
		note := func(line []byte) {
			var e struct{ Package string }
			if json.Unmarshal(line, &e) == nil && e.Package != "" {
				g.flags[e.Package] = c.flags
			}
		}
		running.Go(func() {
			ends[i] = g.test(ctx, c, &lines{mu: &mu, to: stdout, note: note}, &lines{mu: &mu, to: stderr, note: func([]byte) {}})
		})
	}
	go func() {
		running.Wait()
		stdout.Close()
		stderr.Close()
	}()
	x, err := testjson.ScanTestOutput(testjson.ScanConfig{Stdout: results, Stderr: remarks, Handler: handler{new(sync.Mutex), event, g.out}, IgnoreNonJSONOutputLines: true})
	results.CloseWithError(err) // if it stopped before the end
	remarks.CloseWithError(err)
	running.Wait()
	return x, errors.Join(errors.Join(ends...), err, ctx.Err())
}

// test runs one command.
func (g *gate) test(ctx context.Context, c command, stdout, stderr *lines) error {
	if c.after != nil {
		if err := c.after(); err != nil {
			return err
		}
	}
	cmd := g.goTest(c.args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	all, err := startGroup(ctx, cmd, g.grace)
	if err == nil {
		err = all.wait()
		stdout.end()
		stderr.end()
	}
	var exit *exec.ExitError
	if err == nil || ctx.Err() == nil && errors.As(err, &exit) && exit.ExitCode() == 1 { // tests failed, as their results tell
		return nil
	}
	return fmt.Errorf("go test %s: %w", strings.Join(c.args, " "), err)
}

// lines passes whole lines on to where several write.
type lines struct {
	mu   *sync.Mutex
	to   io.Writer
	note func(line []byte) // is called with each

	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 {
			return len(p), nil
		}
		line := l.rest[:end+1]
		l.note(line)
		if _, err := l.to.Write(line); err != nil {
			return 0, err
		}
		l.rest = l.rest[end+1:]
	}
}

// end passes on what a program that was killed had not ended with a newline.
func (l *lines) end() {
	if len(l.rest) > 0 {
		l.Write([]byte("\n"))
	}
}

// background runs a shell command. The function that it returns waits for the end; its error has what the command printed.
func (g *gate) background(ctx context.Context, command string) (wait func() error) {
	end := make(chan error, 1)
	go func() {
		var out bytes.Buffer
		err := g.shell(ctx, command, &out)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, &out)
		}
		end <- err
	}()
	return func() error { return <-end }
}

// shell runs a shell command, if it is one, to its end.
func (g *gate) shell(ctx context.Context, command string, out io.Writer) error {
	if command == "" {
		return nil
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdout, cmd.Stderr = out, out
	all, err := startGroup(ctx, cmd, g.grace)
	if err == nil {
		err = all.wait()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

func (g *gate) say(format string, args ...any) { fmt.Fprintf(g.out, format+"\n", args...) }

type eventFunc = func(testjson.TestEvent, *testjson.Execution) error

// handler passes events on, and what go test says beside them, which come at the same time.
type handler struct {
	mu    *sync.Mutex
	event eventFunc
	out   io.Writer
}

func (h handler) Event(e testjson.TestEvent, x *testjson.Execution) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.event(e, x)
}

func (h handler) Err(line string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := fmt.Fprintln(h.out, line)
	return err
}
