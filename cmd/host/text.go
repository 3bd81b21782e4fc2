package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/printable"
	"github.com/slipway-run/slipway/sdk"
)

// textView shows a run to a person: each step's output line by line below the step's name, what happens between, and how far
// streams are on a terminal. A plain one shows the output as it is, and only what a person must know besides.
type textView struct {
	a      *app
	screen *screen
	req    host.RunRequest
	plain  bool
	width  int // of the longest step's name
	colour map[string]int

	mu     sync.Mutex
	begun  bool
	paused map[string]bool
}

func newTextView(a *app, req host.RunRequest, plain bool) *textView {
	var steps []string
	for _, s := range req.Job.Steps {
		steps = append(steps, s.Name)
	}
	v := newStepsView(a, steps)
	v.req, v.plain = req, plain
	return v
}

// newStepsView is a view of steps without a run of its own.
func newStepsView(a *app, steps []string) *textView {
	v := &textView{a: a, screen: &screen{out: a.out, err: a.err}, colour: make(map[string]int), paused: make(map[string]bool)}
	for i, s := range steps {
		v.width = max(v.width, len(s))
		v.colour[s] = stepColours[i%len(stepColours)]
	}
	return v
}

func (v *textView) event(e host.Event) {
	v.begin()
	switch e.Kind {
	case host.EventWaiting:
		if e.Message != "" { // also a plain one tells why nothing happens
			v.note(e.Step, "waits: "+e.Message)
		}
	case host.EventAgain:
		v.painted(e.Step, yellow, "tried again: "+e.Message)
	case host.EventPlaced:
		v.pause(e.Step, false) // where it was silent nobody waits any more
		v.detail(e.Step, "on worker "+e.Worker)
	case host.EventStreaming:
		v.stream(e)
	case host.EventCreating:
		v.status(fmt.Sprintf("%s: %s", e.Step, e.Message))
	case host.EventPaused:
		if v.pause(e.Step, true) {
			v.painted(e.Step, yellow, "paused: "+e.Message)
		}
	case host.EventResumed:
		if v.pause(e.Step, false) {
			v.note(e.Step, "goes on")
		}
	case host.EventFinished:
		if e.Result.State != host.StepSucceeded && !v.plain {
			v.painted(e.Step, stateColour(e.Result.State), v.a.summary(*e.Result))
		}
	}
}

// begin says what runs, once: after what was wrong with the request, if anything was.
func (v *textView) begin() {
	v.mu.Lock()
	first := !v.begun
	v.begun = true
	v.mu.Unlock()
	if first && !v.plain {
		v.print(fmt.Sprintf("run %s: job %q, %s", v.req.ID, v.req.Job.Name, plural(len(v.req.Job.Steps), "step")))
	}
}

// pause notes whether a step is paused, and tells whether that is new.
func (v *textView) pause(step string, paused bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := v.paused[step] != paused
	v.paused[step] = paused
	return changed
}

func (v *textView) stream(e host.Event) {
	s := e.Stream
	name := s.Artifact[strings.LastIndexByte(s.Artifact, '/')+1:]
	text := fmt.Sprintf("%s from %s to %s", name, s.From, s.To)
	if s.Bytes >= 0 {
		text += ": " + byteSize(s.Bytes)
	}
	if s.Via != "" && s.Via != sdk.EncodingRaw {
		text += ", " + s.Via
	}
	if secs := s.Took.Seconds(); secs >= 0.1 && s.Bytes >= 0 {
		text += fmt.Sprintf(", %s/s", byteSize(int64(float64(s.Bytes)/secs)))
	}
	if s.Done {
		v.detail(e.Step, "streamed "+text)
		return
	}
	v.status(fmt.Sprintf("%s: streaming %s", e.Step, text))
}

func (v *textView) status(text string) {
	if !v.plain {
		v.screen.setStatus(printable.Line(text))
	}
}

// detail notes what a plain view leaves out.
func (v *textView) detail(step, text string) {
	if !v.plain {
		v.note(step, text)
	}
}

// note writes a line of slipway's own about a step. What is in it may come from anybody.
func (v *textView) note(step, text string) { v.painted(step, 0, text) }

// painted is note in a colour; 0: none.
func (v *textView) painted(step string, colour int, text string) {
	text = v.a.err.paint(colour, printable.Message(text))
	if v.plain || step == "" { // of the run itself
		v.print("slipway: " + text)
		return
	}
	v.print(v.name(v.a.err, step) + " - " + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", v.width+3)))
}

func (v *textView) say(text string) { v.print("slipway: " + printable.Message(text)) }

func (v *textView) print(line string) {
	v.screen.write(v.a.err, []byte(wrap(line, v.a.err.width())+"\n"))
}

// name is a step's name as wide as the longest.
func (v *textView) name(to *outlet, step string) string {
	return to.paint(v.colour[step], step) + strings.Repeat(" ", max(v.width-len(step), 0))
}

func (v *textView) end(res *host.RunResult, _ error) {
	if res == nil || v.plain {
		return
	}
	v.screen.write(v.a.err, []byte(summary(v.a.err, v.req, res)))
}

func (v *textView) output(step string) sink {
	if v.plain {
		return &rawSink{v, step}
	}
	return &lineSink{view: v, step: step}
}

func stateColour(s host.StepState) int {
	switch s {
	case host.StepSucceeded:
		return green
	case host.StepSkipped, host.StepAborted:
		return yellow
	}
	return red
}

func byteSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
