package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// allowed are the reasons for which a test may be skipped where nothing may be hidden: what its tier leaves out, and what a runtime that
// is held to the contract does not claim to have.
var allowed = []string{"soak", "unsupported", "not observable"}

// defects says what no repeat can mend.
func (g *gate) defects() (said []string) {
	said = append(said, g.tests.Errors()...)
	if g.tests.HasDataRace() {
		said = append(said, "a data race")
	}
	if g.tests.HasPanic() {
		said = append(said, "a panic")
	}
	for _, tc := range g.tests.Failed() {
		if tc.Test != "" && tc.Elapsed < 0 { // and what would have come after it has not run
			said = append(said, fmt.Sprintf("%s ended in the middle of %s", tc.Package, tc.Test))
		}
		if tc.Test == "" {
			said = append(said, tc.Package+" failed outside of its tests")
		}
		for _, line := range g.tests.OutputLines(tc) {
			if grave.MatchString(line) {
				said = append(said, fmt.Sprintf("%s.%s: %s", tc.Package, tc.Test, strings.TrimSpace(line)))
				break
			}
		}
	}
	return said
}

// grave is what a failed test may print and not be repeated: the Go runtime's end, a leak as testkit tells it, and a data race in a
// program that the test ran, whose output it logged.
var grave = regexp.MustCompile(`^fatal error: .*|^\s+\S+\.go:\d+: leak: .*|.*WARNING: DATA RACE`)

// skips counts the skipped tests by reason, and returns those that may not be.
func (g *gate) skips() (defects []string) {
	count := map[string]int{}
	for _, tc := range g.tests.Skipped() {
		why := reason(g.tests.OutputLines(tc))
		kind, _, _ := strings.Cut(why, ":")
		if g.strict && !slices.Contains(allowed, kind) {
			defects = append(defects, fmt.Sprintf("%s.%s was skipped: %s", tc.Package, tc.Test, why))
		}
		if slices.Contains(allowed, kind) {
			why = kind
		}
		count[why]++
	}
	for _, why := range slices.Sorted(maps.Keys(count)) {
		g.say("skipped %4d: %s", count[why], why)
	}
	return defects
}

var logged = regexp.MustCompile(`^\s*\S+\.go:\d+: (.*)`)

// reason is what the last line that a test logged says.
func reason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if m := logged.FindStringSubmatch(line); m != nil {
			return strings.TrimSpace(m[1])
		}
	}
	return "no reason is told"
}

// slowest names the packages and tests that took longest: where a gate that has grown slow is to be cut.
func (g *gate) slowest() {
	type timed struct {
		name string
		took time.Duration
	}
	var packages, tests []timed
	for _, name := range g.tests.Packages() {
		p := g.tests.Package(name)
		packages = append(packages, timed{name, p.Elapsed()})
		for _, tc := range p.TestCases() {
			if !tc.Test.IsSubTest() {
				tests = append(tests, timed{name + "." + tc.Test.Name(), tc.Elapsed})
			}
		}
	}
	for _, all := range [][]timed{packages, tests} {
		slices.SortFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
		g.say("\nslowest:")
		for _, one := range all[:min(10, len(all))] {
			g.say("%8.1fs %s", one.took.Seconds(), one.name)
		}
	}
}

// verdict prints how it ended, the first failures of flaky tests last but for the summary.
func (g *gate) verdict(failed []testjson.TestCase, defects []string) bool {
	g.slowest()
	for _, tc := range g.flaky {
		g.say("\nFLAKY %s.%s failed and passed when it was repeated. Its first failure:", tc.Package, tc.Test)
		g.output(g.tests, tc)
	}
	for _, tc := range failed {
		g.say("FAILED %s.%s", tc.Package, tc.Test)
	}
	for _, d := range defects {
		g.say("FAILED %s", d)
	}
	testjson.PrintSummary(g.out, g.tests, testjson.SummarizeNone)
	return len(failed)+len(defects) == 0
}
