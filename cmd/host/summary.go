package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host"
)

// summary tells how the steps fared, where their time went, and where the outputs are. A step that was never placed was started by an
// earlier slipway, if at all: only its exit tells how long it ran.
func summary(to *outlet, req host.RunRequest, res *host.RunResult) string {
	var b strings.Builder
	b.WriteByte('\n')
	t := newTable(&b, "STEP", "WORKER", "QUEUE", "STREAM", "RUN", "EXIT", "RESULT")
	t.width = to.columns()
	counts := make(map[host.StepState]int)
	for _, s := range res.Steps {
		counts[s.State]++
		exit := "-"
		if s.Exit != nil {
			exit = fmt.Sprint(s.Exit.Code)
		}
		if s.Queue == 0 {
			s.Stream, s.Run = 0, 0
			if s.Exit != nil {
				s.Run = max(s.Exit.EndedAt.Sub(s.Exit.StartedAt), 0)
			}
		}
		t.row(s.Step, dash(s.Worker), seen(s.Queue), seen(s.Stream), seen(s.Run), exit,
			trusted(to.paint(stateColour(s.State), string(s.State)))) // the last column, so its colour takes no width from others
	}
	t.end()
	b.WriteByte('\n')
	for _, name := range sortedKeys(req.Outputs) {
		if dir, ok := res.Outputs[name]; ok {
			if typed, err := filepath.Abs(req.Outputs[name]); err == nil && typed == dir {
				dir = req.Outputs[name]
			}
			fmt.Fprintf(&b, "output %s is in %s\n", name, dir)
			continue
		}
		fmt.Fprintf(&b, "output %s was not written\n", name)
	}
	fmt.Fprintf(&b, "run %s: %s after %s\n", res.ID, tally(counts), short(res.Took))
	if res.Recorded {
		b.WriteString("that run had ended before, and nothing was run now: give another --id for a new run\n")
	}
	return b.String()
}

// tally counts steps by how they ended.
func tally(counts map[host.StepState]int) string {
	var parts []string
	for _, state := range []host.StepState{host.StepSucceeded, host.StepFailed, host.StepErrored, host.StepTimedOut, host.StepLost,
		host.StepAborted, host.StepSkipped} {
		if n := counts[state]; n > 0 {
			parts = append(parts, plural(n, "step")+" "+string(state))
			if len(parts) > 1 {
				parts[len(parts)-1] = fmt.Sprintf("%d %s", n, state)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// seen is a time that may be unknown, or of what there was none.
func seen(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return short(d)
}

func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
