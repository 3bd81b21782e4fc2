package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
)

// suitePlace is a place with two plugins: the good one, and one that is bad in a way that its argument says.
func suitePlace(t *testing.T) (p *place, good, bad string) {
	t.Helper()
	p = newPlace(t)
	return p, filepath.Join(p.bin, "slipway-memory"), filepath.Join(p.bin, "bad")
}

func (p *place) buildBad() {
	p.t.Helper()
	if err := testkit.Build(filepath.Join(p.bin, "bad"), "../../conformance/testdata/bad"); err != nil {
		p.t.Fatal(err)
	}
}

// report reads a report of the place.
func (p *place) report(name string) (sum struct {
	Seed    uint64
	Command []string
	Results []struct{ ID, Status, Note string }
}) {
	p.t.Helper()
	p.must(json.Unmarshal([]byte(p.read(name)), &sum))
	return sum
}

// TestConformance: the suite runs on the real plugin from the command line, and its reports are what they claim to be.
func TestConformance(t *testing.T) {
	t.Parallel()
	p, good, _ := suitePlace(t)
	few := []string{"conformance", "run", good, "--only", "P01-*,P02", "--time-scale", unhurried}
	text := p.run(append(few, "--report", "r.json", "--junit", "r.xml")...).wants(codePartial).out
	for _, want := range []string{"\ncore ", "partial", "seed "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if sum := p.report("r.json"); len(sum.Results) < 100 || sum.Seed == 0 || !slices.Equal(sum.Command, []string{good, "--time-scale=" + unhurried}) {
		t.Errorf("the report has %d results, seed %d and command %q", len(sum.Results), sum.Seed, sum.Command)
	}
	for what, out := range map[string]string{"the file": p.read("r.xml"), "-o junit": p.run(append(few, "-o", "junit")...).wants(codePartial).out} {
		if tests, bad, skipped := countJUnit(t, out); tests != len(conformance.Cases()) || bad != 0 || skipped != tests-3 { // Q03 always runs
			t.Errorf("JUnit, %s: %d tests, %d failed, %d skipped; want %d, 0, and all but 3", what, tests, bad, skipped, len(conformance.Cases()))
		}
	}
	if sum := (conformance.Summary{}); !sameReport(t, p.read("r.json"), &sum) || sum.Counts[conformance.Pass] != 3 {
		t.Errorf("the report has counts %v, or more than a report has", sum.Counts)
	}
	var sum struct{ Results []any }
	if err := json.Unmarshal([]byte(p.run(append(few, "-o", "json")...).wants(codePartial).out), &sum); err != nil || len(sum.Results) < 100 {
		t.Errorf("-o json: %d results, %v", len(sum.Results), err)
	}
	var schema struct{ Title string }
	if err := json.Unmarshal([]byte(p.run("conformance", "schema").wants(0).out), &schema); err != nil || schema.Title == "" {
		t.Errorf("the schema's title is %q, %v", schema.Title, err)
	}
}

// countJUnit counts the cases as those do who believe in elements, and holds the numbers of each element against that.
func countJUnit(t *testing.T, text string) (tests, bad, skipped int) {
	t.Helper()
	type counts struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
	}
	var doc struct {
		XMLName xml.Name `xml:"testsuites"`
		counts
		Suites []struct {
			counts
			Cases []struct {
				Name    string    `xml:"name,attr"`
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("JUnit: %v", err)
	}
	var all counts
	for _, s := range doc.Suites {
		seen := counts{Tests: len(s.Cases)}
		for _, c := range s.Cases {
			seen.Failures += one(c.Failure)
			seen.Errors += one(c.Error)
			seen.Skipped += one(c.Skipped)
		}
		if seen != s.counts {
			t.Errorf("JUnit: a suite says %+v and has %+v", s.counts, seen)
		}
		all = counts{all.Tests + seen.Tests, all.Failures + seen.Failures, all.Errors + seen.Errors, all.Skipped + seen.Skipped}
	}
	if all != doc.counts {
		t.Errorf("JUnit: the whole says %+v and has %+v", doc.counts, all)
	}
	return all.Tests, all.Failures + all.Errors, all.Skipped
}

func one(element *struct{}) int {
	if element == nil {
		return 0
	}
	return 1
}

// sameReport tells whether a text is a report as the library writes it, which its own tests hold to the schema: nothing more, nothing less.
func sameReport(t *testing.T, text string, sum *conformance.Summary) bool {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(sum); err != nil {
		t.Errorf("the report: %v", err)
		return false
	}
	var again strings.Builder
	if err := conformance.WriteJSON(&again, *sum); err != nil {
		t.Error(err)
	}
	return again.String() == text
}

// unhurried gives cases that should pass far more time than they have from the command line: their bounds are for what hangs.
const unhurried = "10"

// TestConformant: a whole profile that holds is exit code 0.
func TestConformant(t *testing.T) {
	t.Parallel()
	p, good, _ := suitePlace(t)
	p.run("conformance", "run", good, "--profile", "streaming", "--short", "--time-scale", unhurried).wants(0)
	p.write(map[string]string{"zone.json": `{"zone": "here"}`})
	p.run("conformance", "run", good, "--profile", "p2p", "--bare", "--peer", "other", "--worker-settings", "zone.json", "--time-scale", unhurried).wants(0)
}

// TestConformanceFails: a plugin that breaks the contract, or cannot run, is no success.
func TestConformanceFails(t *testing.T) {
	t.Parallel()
	p, good, _ := suitePlace(t)
	p.write(map[string]string{
		"plugin.json": `{"shell": false}`, "bad.json": `{"shel": false}`, "list.json": `[]`,
		"known.json": `[{"case":"P01-run-true","reason":"it runs nothing","until":"2999-12-31"}]`, "gone.json": `[{"case":"P99-x","reason":"r","until":"2999-12-31"}]`,
	})
	res := p.run("conformance", "run", good, "--only", "P01-*", "--plugin-settings", "plugin.json", "--seed", "7", "--junit", "r.xml").wants(codeNotConformant)
	if tests, bad, skipped := countJUnit(t, p.read("r.xml")); bad != 1 || skipped != tests-2 {
		t.Errorf("JUnit: of %d tests %d failed and %d were skipped; want 1, and all but 2", tests, bad, skipped)
	}
	want := "again: slipway conformance run --only=P01-run-true --seed=7 " + good + " --plugin-settings=plugin.json\n"
	if !strings.Contains(res.out, "FAIL core/P01-run-true") || !strings.Contains(res.out, want) {
		t.Errorf("a plugin that runs nothing: no %q in\n%s", want, res.out)
	}
	p.run("conformance", "run", good, "--only", "P01-*", "--plugin-settings", "plugin.json", "--expected", "known.json").wants(codePartial)
	res = p.run("conformance", "run", good, "--only", "P01-*", "--expected", "known.json").wants(codeNotConformant)
	if !strings.Contains(res.out, "it passes, but was expected to fail: it runs nothing") {
		t.Errorf("an unexpected pass:\n%s", res.out)
	}
	p.run("conformance", "run", good, "--expected", "gone.json").wants(codeSuiteUsage).says("gone.json", "P99-x")
	p.run("conformance", "run", good, "--only", "P01-*", "--plugin-settings", "bad.json").wants(codeSuiteUsage).says("shel")
	p.run("conformance", "run", good, "--plugin-settings", "list.json").wants(codeSuiteUsage).says("list.json")
	p.run("conformance", "run", good, "--plugin-settings", "none.json").wants(codeSuiteUsage).says("none.json")
	p.run("conformance", "run", good, "--profile", "corn").wants(codeSuiteUsage).says("core, wire, streaming")
	p.run("conformance", "run", good, "--only", "Q99-*").wants(codeSuiteUsage).says("no case has such an id")
	p.run("conformance", "run", good, "--probe", "linux/mips").wants(codeSuiteUsage).says("linux/mips", "linux/amd64")
	p.run("conformance", "run", good, "--shell").wants(codeSuiteUsage).says("--probe")
	p.run("conformance", "run", good, "--peer-settings", "plugin.json").wants(codeSuiteUsage).says("--peer")
	p.run("conformance", "run", good, "--peer", "suite").wants(codeSuiteUsage).says("suite")
	p.run("conformance", "run", good, "--image-ref", "busybox:1").wants(codeSuiteUsage).says("--image-file")
	p.run("conformance", "run", good, "--image-ref", "busybox:1", "--image-file", "bin/sh").wants(codeSuiteUsage).says("absolute")
	p.run("conformance", "run", good, "-e", "NO_SUCH_VARIABLE").wants(codeSuiteUsage).says("NO_SUCH_VARIABLE=VALUE")
	p.run("conformance", "run", good, "--budget", "0s").wants(codeSuiteUsage).says("--budget")
	p.run("conformance", "run", good, "--no-such-flag").wants(codeSuiteUsage).says("no-such-flag")
	p.run("conformance", "run", good, "-o", "yaml").wants(codeSuiteUsage).says("text, json and junit")
	p.run("conformance", "run").wants(codeSuiteUsage)
	p.run("conformance", "walk").wants(codeSuiteUsage)
	p.run("conformance", "explain", "P99-nothing").wants(codeSuiteUsage).says("slipway conformance list")
	p.run("conformance", "repeat", "P99-nothing", good).wants(codeSuiteUsage).says("slipway conformance list")
	p.run("conformance", "run", good, "--only", "P01-*", "--report", "no/such/dir/r.json").wants(codeHarness).says("no/such/dir")
}

// TestConformanceTells: what the cases are, and what one of them is about.
func TestConformanceTells(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	cases := conformance.Cases()
	if lines := strings.Split(strings.TrimSpace(p.run("conformance", "list").wants(0).out), "\n"); len(lines) != len(cases)+1 {
		t.Errorf("%d lines for %d cases and a head", len(lines), len(cases))
	}
	for line := range strings.Lines(p.run("conformance", "list", "--profile", "wire,p2p").wants(0).out) {
		if first := strings.Fields(line)[0]; !slices.Contains([]string{"PROFILE", "wire", "p2p"}, first) {
			t.Errorf("listed beside wire and p2p: %s", line)
		}
	}
	p.run("conformance", "list", "--profile", "corn").wants(codeSuiteUsage).says("core, wire, streaming")
	kase, _ := conformance.Find("P22-max-processes")
	out := p.run("conformance", "explain", kase.ID).wants(0).out
	for _, want := range []string{kase.ID, kase.Title, kase.Doc, "Promise 6g. A container takes 4096 processes", "MUST"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if by := p.run("conformance", "explain", "P22").wants(0).out; by != out {
		t.Errorf("by the number alone a case is explained as\n%s", by)
	}
	out = p.run("conformance", "explain", "6g").wants(0).out
	for _, want := range []string{"6g (of the plugin, rule 6: Exit)", "4096 processes", kase.ID} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestConformanceRerun: what failed in a report is run again, and nothing else; values of variables are not in it.
func TestConformanceRerun(t *testing.T) {
	t.Parallel()
	p, good, _ := suitePlace(t)
	p.write(map[string]string{"plugin.json": `{"shell": false}`, "text.json": "no JSON", "old.json": `{"results": []}`})
	p.run("conformance", "run", good, "--only", "P01-*,V01-*,P02-*", "--plugin-settings", "plugin.json", "--report", "r.json", "--short", "--time-scale", unhurried, "-e", "SECRET=hush").wants(codeNotConformant)
	if text := p.read("r.json"); strings.Contains(text, "hush") {
		t.Errorf("the report has a variable's value:\n%s", text)
	}
	first := p.report("r.json")
	if want := []string{good, "--env=SECRET", "--plugin-settings=plugin.json", "--short", "--time-scale=" + unhurried}; !slices.Equal(first.Command, want) {
		t.Errorf("the report's command is %q, want %q", first.Command, want)
	}
	p.run("conformance", "rerun", "r.json").wants(codeSuiteUsage).says("SECRET=VALUE")
	p.run("conformance", "rerun", "r.json", "-e", "SECRET=hush", "--report", "again.json").wants(codeNotConformant)
	var ran []string
	second := p.report("again.json")
	for _, r := range second.Results {
		if r.Status != "skipped" {
			ran = append(ran, r.ID+" "+r.Status)
		}
	}
	if want := []string{"P01-run-true fail", "P02-exec-missing fail", "Q03-nothing-left pass"}; !slices.Equal(ran, want) || second.Seed != first.Seed {
		t.Errorf("run again: %q with seed %d, want %q with %d", ran, second.Seed, want, first.Seed)
	}
	p.write(map[string]string{"plugin.json": `{}`}) // it is mended
	p.run("conformance", "rerun", "again.json", "-e", "SECRET=hush", "--report", "mended.json").wants(codePartial)
	p.run("conformance", "rerun", "mended.json").wants(0)
	for _, file := range []string{"none.json", "text.json", "old.json"} {
		p.run("conformance", "rerun", file).wants(codeSuiteUsage).says(file)
	}
}

// TestConformanceRepeat: one case many times, with a rate and a bound.
func TestConformanceRepeat(t *testing.T) {
	t.Parallel()
	p, good, _ := suitePlace(t)
	p.write(map[string]string{"plugin.json": `{"shell": false}`})
	out := p.run("conformance", "repeat", "P01-run-true", good, "-n", "20", "--time-scale", unhurried).wants(0).out
	if !strings.HasPrefix(out, "P01-run-true: 0 of 20 runs failed, 0.00 %; with 95 % confidence less than 13.91 % do; ") {
		t.Errorf("twenty good runs: %q", out)
	}
	var rep struct {
		Runs, Failed int
		Rate, Bound  float64
	}
	out = p.run("conformance", "repeat", "P01-run-true", good, "-n", "20", "--until-fail", "--parallel", "1", "-o", "json", "--plugin-settings", "plugin.json").wants(codeNotConformant).out
	if err := json.Unmarshal([]byte(out), &rep); err != nil || rep.Runs != 1 || rep.Failed != 1 || rep.Rate != 1 || rep.Bound != 1 {
		t.Errorf("until the first failure: %+v, %v", rep, err)
	}
	p.run("conformance", "repeat", "X03-out-of-memory", good, "-n", "20").wants(codePartial)
	p.run("conformance", "repeat", "P01-run-true", good, "-n", "0").wants(codeSuiteUsage)
	p.run("conformance", "repeat", "P01-run-true", "./no-such-plugin").wants(codeHarness).says("no-such-plugin")
}

// TestConformanceOfBadPlugins: what is no plugin, or hangs, or dies, gets a verdict or an error that names it, in its time, and nothing of
// it is left.
func TestConformanceOfBadPlugins(t *testing.T) {
	t.Parallel()
	p, _, bad := suitePlace(t)
	p.buildBad()
	p.must(os.WriteFile(filepath.Join(p.work, "text"), []byte("no program"), 0o755))
	p.must(os.WriteFile(filepath.Join(p.work, "plain"), []byte("no program"), 0o644))
	p.must(os.WriteFile(filepath.Join(p.work, "traceback"), []byte("#!/bin/sh\necho started >>starts\necho ImportError: no module named grpc >&2\nexit 3\n"), 0o755))
	const never = "1h"
	for _, tt := range []struct {
		plugin []string
		says   []string
		budget string // never, where something else ends it; what waits for ever is ended by any time
	}{
		{[]string{"./no-such-plugin"}, []string{"no-such-plugin"}, never},
		{[]string{"./plain"}, []string{"plain"}, never},
		{[]string{"./text"}, []string{"text"}, never},
		{[]string{"/bin/false"}, []string{"/bin/false"}, never},
		{[]string{"./traceback"}, []string{"exit code 3", "no module named grpc"}, never},
		{[]string{bad, "--", "silent"}, []string{bad, "does not answer in time", "starting"}, "3s"},
		{[]string{bad, "--", "garbage"}, []string{bad, "Welcome to my plugin", `want "1|1|unix|PATH|grpc|"`}, never},
		{[]string{bad, "--", "protocol"}, []string{bad, "99"}, never},
		{[]string{bad, "--", "hang"}, []string{bad, "does not answer in time", "asking for its status"}, testkit.Scale(30 * time.Second).String()},
	} {
		t.Run(filepath.Base(strings.Join(tt.plugin, "-")), func(t *testing.T) {
			t.Parallel()
			if slices.Contains(tt.plugin, "hang") {
				testkit.Soak(t, "it has to come up within the time that it then hangs for; package conformance has that by a clock of its own")
			}
			scale := unhurried
			if tt.budget != never {
				scale = "1"
			}
			args := append([]string{"conformance", "run", "--budget", tt.budget, "--time-scale", scale}, tt.plugin...)
			p.run(args...).wants(codeHarness).says(tt.says...)
			if tt.plugin[0] == "./traceback" {
				if starts := p.read("starts"); starts != "started\n" { // whoever writes a plugin waits for that
					t.Errorf("it was started %d times", strings.Count(starts, "started"))
				}
			}
		})
	}
	t.Run("crash under many cases", func(t *testing.T) {
		t.Parallel()
		out := p.run("conformance", "run", "--profile", "core", "--budget", never, "--time-scale", "10", bad, "--", "crash").wants(codeNotConformant).out
		first, rest, _ := strings.Cut(out, "\n\n")
		if first = strings.SplitN(first, "FAIL ", 3)[1]; !strings.HasPrefix(first, "core/Q03-nothing-left") || !strings.Contains(first, "to the end of the run: while ") || !strings.Contains(first, "its process is gone: exit code 9") {
			t.Errorf("how it ended does not come first:\n%s", first)
		}
		if n := strings.Count(out, "FAIL core/"); n > 40 { // of 150; some are under way when it ends
			t.Errorf("%d cases were tried on a plugin that had ended:\n%s", n, rest)
		}
	})
	for mode, tt := range map[string]struct {
		only, scale string
		want        []string
	}{
		"crash":      {"P01-*", "10", []string{"FAIL core/P01-run-true", "the plugin went away under the call", "its process is gone: exit code 9", "the disk is on fire"}},
		"hang-later": {"P01-*", "0.1", []string{"FAIL core/P01-run-true"}},
		"leak":       {"P01-*", "10", []string{"FAIL core/Q03-nothing-left", "again: slipway conformance run --seed="}},
		"liar":       {"Y03-*", "10", []string{"FAIL core/Y03-files-read", "last words on stderr", "    files are read elsewhere\n"}},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			out := p.run("conformance", "run", "--only", tt.only, "--budget", never, "--time-scale", tt.scale, bad, "--", mode).wants(codeNotConformant).out
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}
