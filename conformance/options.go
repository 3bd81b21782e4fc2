package conformance

import (
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"
)

// Options are the optional settings of a run. Their zero value runs everything.
type Options struct {
	Profiles []Profile // empty: those of [Usual], and cases of others that Only names
	// Only and Skip hold patterns of path.Match for IDs, or the part before the first "-", such as P01. Of what Only leaves out nothing is said but that it was skipped.
	Only, Skip []string
	// Without are requirements that the target lacks on purpose. Cases that need one are left out; else they are [EnvMissing].
	Without  []Requirement
	Expected []Expectation

	// Short makes loops that look for rare faults ten times shorter.
	Short bool
	// Small makes gigabytes a twentieth of that, as Short does: enough for whatever grows with what passes through.
	Small bool
	// Seed repeats the random choices of an earlier run. Zero: a new one.
	Seed uint64
	// Parallel is how many cases [Execute] runs at once; default 8. Under [Run] go test's -parallel says that.
	Parallel int

	OpenTimeout time.Duration // for opening the target and looking at its worker; default 1 min, times TimeScale if that is more than 1
	// TimeScale multiplies the time of each case, and those that a plugin's process has to start and to be configured; default 1, and 10 under [Run]: a test runs beside others, on whatever machine, and its
	// bounds are there for what hangs.
	TimeScale      float64
	HangGrace      time.Duration // how long after the end of a case's time its calls may take to return; default 5 s, times TimeScale if that is more than 1
	CleanupTimeout time.Duration // for what one case left; default 30 s, times TimeScale
	Budget         time.Duration // for the whole run, without what it takes to clean up and close; zero: as long as it takes

	// Begun hears under [Execute] of each case that is about to be run, never two at once and never while a result is reported. It may be nil.
	Begun func(Case)

	Cases []Case           // instead of [Cases]; [NothingLeft] is always added
	Now   func() time.Time // for expectations; default time.Now
}

func (o Options) withDefaults() Options {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	if o.TimeScale <= 0 {
		o.TimeScale = 1
	}
	if o.OpenTimeout <= 0 {
		o.OpenTimeout = longer(time.Minute, o.TimeScale)
	}
	if o.HangGrace <= 0 {
		o.HangGrace = longer(5*time.Second, o.TimeScale)
	}
	if o.CleanupTimeout <= 0 {
		o.CleanupTimeout = time.Duration(30 * o.TimeScale * float64(time.Second))
	}
	if o.Budget > 0 {
		o.OpenTimeout = min(o.OpenTimeout, o.Budget)
	}
	if o.Cases == nil {
		o.Cases = Cases()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Cases = slices.DeleteFunc(slices.Clone(o.Cases), func(c Case) bool { return c.ID == nothingLeftID })
	return o
}

// asked gives the profiles that a run has.
func (o Options) asked() []Profile {
	if len(o.Profiles) == 0 {
		return Usual()
	}
	return o.Profiles
}

// Chosen tells whether the user wants a case.
func (o Options) Chosen(c Case) bool { return o.deselected(c) == "" }

// deselected tells why the user does not want a case; empty: it is wanted.
func (o Options) deselected(c Case) string {
	named := len(o.Profiles) == 0 && slices.ContainsFunc(o.Only, c.means) // whoever names a case means it
	if !named && !slices.Contains(o.asked(), c.Profile) {
		return "its profile was not asked for"
	}
	if len(o.Only) > 0 && !matchesAny(o.Only, c) {
		return notAsked
	}
	if matchesAny(o.Skip, c) {
		return "the user skips it"
	}
	for _, r := range o.Without {
		if c.requires(r) {
			return fmt.Sprintf("the user does without %q", r)
		}
	}
	return ""
}

// notAsked is why [Options.Only] leaves a case out.
const notAsked = "it was not asked for"

// number is the part of a case's id before its words.
func number(id string) string {
	n, _, _ := strings.Cut(id, "-")
	return n
}

func matchesAny(patterns []string, c Case) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(strings.TrimPrefix(p, string(c.Profile)+"/"), c.ID)
		return ok && err == nil || c.means(p)
	})
}

func (o Options) expectation(id string) (Expectation, bool) {
	i := slices.IndexFunc(o.Expected, func(e Expectation) bool { return e.ID == id })
	if i < 0 {
		return Expectation{}, false
	}
	return o.Expected[i], true
}
