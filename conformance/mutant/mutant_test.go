package mutant

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write MUTANTS.md anew")
	testkit.Main(m)
}

// build builds a program.
func build(t *testing.T, dir, name, pkg string) string {
	t.Helper()
	program := filepath.Join(dir, name)
	if err := testkit.Build(program, pkg); err != nil {
		t.Fatal(err)
	}
	return program
}

// linux gives a base whose containers are real ones, where they can be made; in CI they must.
func linux(t *testing.T, dir string) []Base {
	t.Helper()
	lack := t.Logf
	if testkit.CI() {
		lack = t.Fatalf
	}
	if os.Geteuid() != 0 {
		lack("making containers needs root: cases of the profile linux are not tested here")
		return nil
	}
	for _, program := range []string{"runc", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			lack("cases of the profile linux are not tested here: %v (install Debian's runc and busybox-static)", err)
			return nil
		}
	}
	plugin := build(t, dir, "slipway-runc", "../../plugins/runc/cmd")
	shim := build(t, dir, "slipway-shim", "../../sdk/shim/cmd")
	return []Base{{
		Name: "runc", Command: []string{plugin}, Shell: true, Commands: probe(t, dir, "linux/"+goruntime.GOARCH),
		Worker: func(worker string) json.RawMessage {
			return json.RawMessage(fmt.Sprintf(`{"state":%q,"shim":%q}`, filepath.Join(dir, "runc", worker), shim))
		},
	}}
}

// probe builds the suite's own program when it is asked for.
func probe(t *testing.T, dir, platform string) func(context.Context) (conformance.Commands, error) {
	t.Helper()
	own := filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"))
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (conformance.Commands, error) {
		file, err := conformance.BuildProbe(ctx, own, platform)
		if err != nil {
			return nil, err
		}
		return conformance.LoadProbe(file)
	}
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestCheck(t *testing.T) {
	for _, p := range Check() {
		t.Error(p)
	}
}

// smoke are the mutants of the gate, at least one of each group: those that stand at the plugin's end and those at the host's, one that hangs,
// and on each base some.
var smoke = []string{
	"already-exists-missing", "failure-remembered", "label-lost", "clone-shares", "links-made-safe", "first-entry-counts", "bad-archive-accepted", "absolute-path-taken",
	"read-only-ignored", "volumes-die-too", "offset-ignored", "cancel-ignored", "double-start", "hup-is-term", "killed-is-zero", "late-byte",
	"from-ignored", "exit-ends", "lines-only", "stdin-cut", "path-ignored", "writes-through-links", "zero-after-crash", "old-exits-lost", "tty-forgotten",
	"ticket-kept", "hundred-exits", "stdin-unheard", "ends-with-exit", "privilege-dropped",
	"abandoned-is-over",
}

// TestSmoke: the gate leaves out no kind of fault.
func TestSmoke(t *testing.T) {
	left := slices.Clone(smoke)
	for _, group := range groups() {
		there := false
		for _, m := range group {
			if i := slices.Index(left, m.ID); i >= 0 {
				there, left = true, slices.Delete(left, i, i+1)
			}
		}
		if !there {
			t.Errorf("of the group of %q none is in the gate", group[0].ID)
		}
	}
	if len(left) > 0 {
		t.Errorf("no mutants are %q", left)
	}
}

// TestConclude: what lives, what kills nothing, and what only looks dead is a problem.
func TestConclude(t *testing.T) {
	s := &standing{Base: Base{Name: "base"}}
	m := Mutant{ID: "m", Doc: "something is wrong"}
	result := func(id string, status conformance.Status, seconds float64) conformance.Result {
		return conformance.Result{ID: id, Status: status, Seconds: seconds, Failures: []conformance.Failure{{What: "seen\nmore"}}}
	}
	var v Verdict
	v.Mutant = m.ID
	v.add(m, s, result("P01-run-true", conformance.Fail, 1), 1)
	if !v.Killed() || v.Kills[0] != (Kill{Case: "P01-run-true", Base: "base", What: "seen"}) {
		t.Errorf("a kill: %+v", v)
	}
	v.add(m, s, result("I01-split", conformance.Pass, 1), 1)
	v.add(m, s, result("I02-binary-safe", conformance.Fail, 1e6), 1) // a slow machine does that, too
	if v.Killed() || len(v.Missed) != 2 {
		t.Errorf("two that should have killed: %+v", v)
	}
	m.Hangs = true
	hung := Verdict{}
	hung.add(m, s, result("I02-binary-safe", conformance.Fail, 1e6), 1)
	if !hung.Killed() {
		t.Errorf("one that hangs: %+v", hung)
	}

	r := &run{home: map[string]*standing{"P01-run-true": s, "I01-split": s, "V01-empty": s}}
	r.Mutants, r.NotYet = []Verdict{v}, []Missing{{"V01-empty", "a reason"}}
	r.conclude()
	got := strings.Join(r.Problems, "; ")
	for _, want := range []string{"I01-split is required", "by I01-split", "by I02-binary-safe"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q among %q", want, r.Problems)
		}
	}
	if len(r.Problems) != 3 || r.OK() {
		t.Errorf("problems are %q", r.Problems)
	}
}

// TestSelf tests the suite: every mutant is killed by the cases that should, every required case kills one, and the runtimes without a mutant
// pass, each case on one of them. The gate has some of each kind.
func TestSelf(t *testing.T) {
	dir := tempDir(t)
	self := build(t, dir, "mutant", "./testdata/mutant")
	memory := build(t, dir, "slipway-memory", "../../plugins/memory/cmd")
	bases := append(Memory(memory, dir, os.Environ(), probe(t, dir, "wasip1/wasm")), linux(t, dir)...)
	opts := Options{Self: []string{self}, Bases: bases, Short: true, TimeScale: testkit.TimeScale()}
	if testing.Short() {
		opts.Only = smoke
	}
	if only := os.Getenv("MUTANTS"); only != "" { // for whoever works on one
		opts.Only = strings.Split(only, ",")
	}
	matrix, err := Run(testkit.Context(t), opts, func(v Verdict) {
		for _, k := range v.Kills {
			t.Logf("%s: %s: %s", v.Mutant, k.Case, k.What)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteText(&b, matrix); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", b.String())
	for _, p := range matrix.Problems {
		t.Error(p)
	}
	if len(opts.Only) > 0 || len(bases) < 5 {
		return
	}
	for id, why := range matrix.NotRun {
		if id != "P22-max-processes" { // left out of short runs; TestMemoryBare of package conformance has it
			t.Errorf("case %s is run by no test, so nobody knows whether it can pass: %s", id, why)
		}
	}
}
