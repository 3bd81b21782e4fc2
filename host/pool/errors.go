package pool

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// NoWorkerError says that no worker is compatible with the spec: waiting would
// not help.
type NoWorkerError struct {
	Spec    Spec
	Reasons []Verdict // one for each worker; empty if there is no worker at all
}

func (e *NoWorkerError) Error() string {
	if len(e.Reasons) == 0 {
		return "no worker: none is known to this host: add a worker to the configuration, or see why its plugin reports none"
	}
	return fmt.Sprintf("no compatible worker%s: %s: %s", asks(e.Spec), account(e.Reasons), remedy(e.Reasons))
}

// FullError says that there are compatible workers, all of them full.
type FullError struct {
	Spec    Spec
	Reasons []Verdict // one for each worker
}

func (e *FullError) Error() string {
	return fmt.Sprintf("no place free%s: %s: wait, raise the limit, or add a worker", asks(e.Spec), account(e.Reasons))
}

// WaitError says that the spec's wait limit passed in the queue.
type WaitError struct {
	Owner  string
	Waited time.Duration
	Cause  error // a *FullError, or a *NoWorkerError if that is how things stood at the end
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("%q waited %s for a place, its limit: %v", e.Owner, e.Waited.Round(time.Millisecond), e.Cause)
}

func (e *WaitError) Unwrap() error { return e.Cause }

// maxNamed is how many workers the text of an error names.
const maxNamed = 8

// tally is how many workers have the same reason, and some of them.
type tally struct {
	reason   Reason
	count    int
	examples []Verdict // the first ones, at most eight
}

// summarise groups verdicts by reason, in the order in which the reasons first come.
func summarise(verdicts []Verdict) []tally {
	var out []tally
	index := make(map[Reason]int)
	for _, v := range verdicts {
		i, ok := index[v.Reason]
		if !ok {
			i = len(out)
			index[v.Reason] = i
			out = append(out, tally{reason: v.Reason})
		}
		out[i].count++
		if len(out[i].examples) < maxNamed {
			out[i].examples = append(out[i].examples, v)
		}
	}
	return out
}

// account is the text for verdicts, naming at most maxNamed workers, and one of
// each reason as far as that goes.
func account(verdicts []Verdict) string {
	tallies := summarise(verdicts)
	named := make([]int, len(tallies))
	for left, more := maxNamed, true; more; {
		more = false
		for i, t := range tallies {
			if left > 0 && named[i] < len(t.examples) {
				named[i]++
				left--
				more = true
			}
		}
	}
	parts := make([]string, len(tallies))
	for i, t := range tallies {
		var names []string
		for _, v := range t.examples[:named[i]] {
			names = append(names, v.Worker+": "+v.Detail)
		}
		if rest := t.count - len(names); rest > 0 && len(names) > 0 {
			names = append(names, fmt.Sprintf("and %d more", rest))
		}
		parts[i] = fmt.Sprintf("%d %s", t.count, t.reason.phrase())
		if len(names) > 0 {
			parts[i] += " (" + strings.Join(names, "; ") + ")"
		}
	}
	return strings.Join(parts, ", ")
}

// remedy says what would help the worker that comes nearest: the one whose reason
// judge gives last.
func remedy(verdicts []Verdict) string {
	steps := []struct {
		reason Reason
		text   string
	}{
		{NotRunning, "bring one back that is not running (uncordon it, or see why it stalled)"},
		{TooBig, "add a bigger worker or raise its limit, or ask for less"},
		{NoType, "add a worker that has the resource type, or use another image"},
		{NoFeature, "add a worker that has the feature, or do without it"},
		{MissingTag, "add the tag to a worker, or ask for other tags"},
		{TaggedOnly, "ask for a worker's tags, or add one without tags"},
		{OtherTeam, "add a shared worker, or one of the team"},
		{OtherPlatform, "add a worker of the platform"},
		{OtherRuntime, "add a worker of the runtime"},
		{Excluded, "add a worker, or exclude fewer"},
		{NotWith, "the worker asked for is gone, with what was on it"},
	}
	for _, s := range steps {
		if slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Reason == s.reason }) {
			return s.text
		}
	}
	return "ask again, for things have changed"
}

// asks says what a spec wants of its worker.
func asks(s Spec) string {
	var parts []string
	add := func(format string, v any) { parts = append(parts, fmt.Sprintf(format, v)) }
	if s.With != "" {
		add("worker %q", s.With)
	}
	if s.Runtime != "" {
		add("runtime %q", s.Runtime)
	}
	if s.Platform != "" {
		add("platform %q", s.Platform)
	}
	if s.Team != "" {
		add("team %q", s.Team)
	}
	if len(s.Tags) > 0 {
		add("tags %q", s.Tags)
	}
	if len(s.Features) > 0 {
		add("features %q", s.Features)
	}
	if s.Volumes > 0 {
		add("%s", wantedVolumes(s.Volumes, 0))
	}
	if s.ResourceType != "" {
		add("resource type %q", s.ResourceType)
	}
	for _, a := range s.Resources.amounts() {
		if a.asks > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", a.asks, a.name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " for " + strings.Join(parts, ", ")
}
