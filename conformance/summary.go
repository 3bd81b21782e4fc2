package conformance

import (
	"cmp"
	"slices"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Summary is what came of a run.
type Summary struct {
	Target   string           `json:"target"`
	Worker   string           `json:"worker"`
	SDK      string           `json:"sdk"`
	Features []sdk.Feature    `json:"features"` // that the worker names
	Seed     uint64           `json:"seed"`     // repeats the run's random choices
	Started  time.Time        `json:"started"`
	Seconds  float64          `json:"seconds"`
	Asked    []Profile        `json:"asked"`             // the profiles that were to be run
	Command  []string         `json:"command,omitempty"` // arguments of "slipway conformance run" that do it again, without the values of variables
	Profiles []ProfileSummary `json:"profiles"`          // in the order of Profiles; those without cases are left out
	Counts   map[Status]int   `json:"counts"`
	Results  []Result         `json:"results"`            // in the order of the cases
	Untested []sdk.Feature    `json:"untested,omitempty"` // features that the worker names and that no case has tried, in a run of which no cases were left out
	Said     []string         `json:"said,omitempty"`     // the last lines that the plugin wrote to stderr, where something failed
}

// ProfileSummary is what came of one profile.
type ProfileSummary struct {
	Profile  Profile        `json:"profile"`
	Verdict  Verdict        `json:"verdict"`
	Counts   map[Status]int `json:"counts"`
	Warnings int            `json:"warnings"` // failures of SHOULD cases
}

// OK tells whether no profile failed and the suite itself had no error. What was not run does not make it false: look at the verdicts.
func (s Summary) OK() bool {
	return s.Counts[Error] == 0 && !slices.ContainsFunc(s.Profiles, func(p ProfileSummary) bool { return p.Verdict == Not })
}

// Verdict is the answer for the profiles that were asked for, taken together. It says nothing of errors of the suite itself. A profile whose
// cases are all unsupported takes nothing from the others: whoever cannot stream from worker to worker may be conformant in all the rest.
func (s Summary) Verdict() Verdict {
	v, shown := Conformant, false
	for _, p := range s.Profiles {
		if p.Verdict == Not {
			return Not // also of what belongs to no profile that was asked for: what the run left behind
		}
		if !slices.Contains(s.Asked, p.Profile) || p.unsupported() {
			continue
		}
		shown = true
		if p.Verdict == Partial {
			v = Partial
		}
	}
	if !shown {
		return Partial
	}
	return v
}

// unsupported tells whether the worker names a feature of none of the cases.
func (p ProfileSummary) unsupported() bool {
	return len(p.Counts) == 1 && p.Counts[Unsupported] > 0
}

// leftOut tells whether the user has asked for none of a profile's cases, by naming others.
func (s Summary) leftOut(p Profile) bool {
	return !slices.ContainsFunc(s.Results, func(r Result) bool { return r.Profile == p && r.Note != notAsked })
}

// Slowest gives the n results that took longest, the longest first.
func (s Summary) Slowest(n int) []Result {
	all := slices.DeleteFunc(slices.Clone(s.Results), func(r Result) bool { return r.Runs == 0 })
	slices.SortStableFunc(all, func(a, b Result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all[:min(n, len(all))]
}

func summarize(s Summary, results []Result) Summary {
	s.Results = results
	s.Counts = count(results)
	for _, p := range Profiles() {
		var own []Result
		for _, r := range results {
			if r.Profile == p {
				own = append(own, r)
			}
		}
		if len(own) == 0 {
			continue
		}
		ps := ProfileSummary{Profile: p, Verdict: verdict(own), Counts: count(own)}
		for _, r := range own {
			if r.Warning() {
				ps.Warnings++
			}
		}
		s.Profiles = append(s.Profiles, ps)
	}
	return s
}

func count(results []Result) map[Status]int {
	n := make(map[Status]int)
	for _, r := range results {
		n[r.Status]++
	}
	return n
}

// verdict of a profile in which nothing passed is at best partial: nothing was shown.
func verdict(results []Result) Verdict {
	v, passed := Conformant, false
	for _, r := range results {
		if r.Status == Pass {
			passed = true
		}
		if r.Level == Should {
			continue
		}
		switch r.Status {
		case Pass, Unsupported:
		case Fail:
			return Not
		default:
			v = Partial
		}
	}
	if !passed {
		return Partial
	}
	return v
}
