package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"gotest.tools/gotestsum/testjson"
)

// gate is one run.
type gate struct {
	out    io.Writer
	goTest func(args ...string) *exec.Cmd // go test, telling its events
	repeat int                            // so many failed tests are repeated, no more
	strict bool                           // only allowed reasons to skip

	tests *testjson.Execution // what all stages told so far
	flags map[string][]string // by package, those of its stage
	flaky []testjson.TestCase
}

func goTest(args ...string) *exec.Cmd {
	return exec.Command("go", append([]string{"test", "-json", "-count=1"}, args...)...)
}

// run reports whether the change may land, and says why not.
func (g *gate) run(ctx context.Context, stages []string, meanwhile string) bool {
	wait := background(ctx, meanwhile)
	var defects []string
	for i, stage := range stages {
		if i == len(stages)-1 {
			if err := wait(); err != nil {
				defects = append(defects, err.Error())
			}
		}
		if err := g.stage(ctx, strings.Fields(stage)); err != nil {
			defects = append(defects, fmt.Sprintf("go test %s: %v", stage, err))
		}
	}
	if g.tests == nil {
		g.say("FAIL: no test ran: %s", strings.Join(defects, "; "))
		return false
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
	defects = append(defects, g.skips()...)
	return g.verdict(failed, defects)
}

// stage runs go test once. An error means that it could not be run or told no results; failed tests are none.
func (g *gate) stage(ctx context.Context, args []string) error {
	first := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if first < 0 {
		return errors.New("no package is named, or a flag is apart from its value: write -flag=value")
	}
	show := g.show()
	var err error
	g.tests, err = g.scan(ctx, args, g.tests, func(e testjson.TestEvent, x *testjson.Execution) error {
		g.flags[e.Package] = args[:first]
		return show(e, x)
	})
	return err
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
		args := append(slices.Clone(g.flags[tc.Package]), "-run="+pattern(tc.Test), tc.Package)
		x, err := g.scan(ctx, args, nil, g.show())
		if err != nil {
			g.say("go test %s: %v", strings.Join(args, " "), err)
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

// scan runs go test and reads what it tells, in addition to what is already in x.
func (g *gate) scan(ctx context.Context, args []string, x *testjson.Execution, event eventFunc) (*testjson.Execution, error) {
	cmd := g.goTest(args...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return x, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return x, err
	}
	all, err := startGroup(ctx, cmd)
	if err != nil {
		return x, err
	}
	x, err = testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr, Handler: handler{event, g.out}, Execution: x, IgnoreNonJSONOutputLines: true,
	})
	var exit *exec.ExitError
	if end := all.wait(); err == nil && ctx.Err() == nil && errors.As(end, &exit) && exit.ExitCode() == 1 {
		return x, nil // tests failed, as x tells
	} else if err == nil {
		err = end
	}
	return x, errors.Join(err, ctx.Err())
}

// background runs a shell command. The function that it returns waits for the end; its error has what the command printed.
func background(ctx context.Context, command string) (wait func() error) {
	if command == "" {
		return func() error { return nil }
	}
	end := make(chan error, 1)
	go func() {
		var out bytes.Buffer
		cmd := exec.Command("sh", "-c", command)
		cmd.Stdout, cmd.Stderr = &out, &out
		all, err := startGroup(ctx, cmd)
		if err == nil {
			err = all.wait()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", command, err, &out)
		}
		end <- err
	}()
	return func() error { return <-end }
}

func (g *gate) say(format string, args ...any) { fmt.Fprintf(g.out, format+"\n", args...) }

type eventFunc = func(testjson.TestEvent, *testjson.Execution) error

// handler passes events on, and what go test says beside them.
type handler struct {
	event eventFunc
	out   io.Writer
}

func (h handler) Event(e testjson.TestEvent, x *testjson.Execution) error { return h.event(e, x) }

func (h handler) Err(line string) error {
	_, err := fmt.Fprintln(h.out, line)
	return err
}
