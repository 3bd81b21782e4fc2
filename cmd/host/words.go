package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/stream"
)

// complain prints what went wrong, each thing on a line of its own.
func (a *app) complain(err error) {
	for _, e := range separate(err) {
		if text := a.words(e); text != "" {
			a.say(text)
		}
	}
}

// say prints a line of slipway's own.
func (a *app) say(text string) {
	_ = a.err.tell("slipway: " + text) // the outlet keeps its failure
}

// words puts an error into words for a person: without the ids that only slipway needs, and with what to do.
func (a *app) words(err error) string {
	text := a.shorten(strings.TrimSpace(err.Error()))
	if none, ok := errors.AsType[*pool.NoWorkerError](err); ok {
		text = strings.ReplaceAll(text, none.Error(), a.withoutTold(*none).Error())
	}
	if e, ok := errors.AsType[*launch.Error](err); ok && e.RetryAfter > 0 { // by a host that stays; this one ends now
		text = strings.ReplaceAll(text, fmt.Sprintf(" (tried again in %v)", e.RetryAfter.Round(time.Second)), "")
	}
	switch {
	case errors.Is(err, stream.ErrNotEmpty):
		return text + "; --force replaces it"
	case errors.Is(err, stream.ErrChanged):
		return text + "; run it again once nothing writes there"
	case isType[*stream.PackError](err):
		return text + "; leave it out of the input, or put a file in its place that can be read"
	}
	return text
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// withoutTold leaves out why a worker's plugin does not run where that was said already.
func (a *app) withoutTold(e pool.NoWorkerError) *pool.NoWorkerError {
	e.Reasons = slices.Clone(e.Reasons)
	for i, v := range e.Reasons {
		if plugin := a.told[v.Worker]; plugin != "" && v.Reason == pool.NotRunning {
			e.Reasons[i].Detail = fmt.Sprintf("its plugin %q does not run", plugin)
		}
	}
	return &e
}

// shorten leaves out the run's id where a step's name says enough.
func (a *app) shorten(text string) string {
	if a.run == "" {
		return text
	}
	return strings.ReplaceAll(text, host.RunOwner(a.run, ""), "")
}

// separate gives the errors that were joined without a text of their own.
func separate(err error) []error {
	switch e := err.(type) {
	case usageError:
		return separate(e.error)
	case codeError:
		return separate(e.error)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	var texts []string
	for _, e := range joined.Unwrap() {
		texts = append(texts, e.Error())
		out = append(out, separate(e)...)
	}
	if strings.Join(texts, "\n") != err.Error() {
		return []error{err}
	}
	return out
}

// wrap breaks lines at spaces so that they fit, and indents what it breaks off; the spaces there are gone. A width of 0 breaks nothing.
func wrap(text string, width int) string {
	if width == 0 {
		return text
	}
	const indent = "    "
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		column := 0
		gap := "" // before the next word
		for j, word := range strings.SplitAfter(line, " ") {
			text := strings.TrimRight(word, " ")
			if j > 0 && column+len(gap)+utf8.RuneCountInString(text) > width {
				gap = "\n" + indent
				column = -1 // the end of the line has no width
			}
			b.WriteString(gap + text)
			column += len(gap) + utf8.RuneCountInString(text)
			gap = word[len(text):]
		}
	}
	return b.String()
}

func (a *app) writeDiagnostics(diags hcl.Diagnostics) {
	_ = config.WriteDiagnostics(a.err, diags, nil, a.err.colour) // the outlet keeps its failure
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// summary says in one line how a step ended.
func (a *app) summary(s host.StepResult) string {
	if s.State == host.StepFailed || s.Err == nil {
		return s.Summary()
	}
	return fmt.Sprintf("%s: %s", s.State, a.words(s.Err))
}
