package conformance

import (
	stdcmp "cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/sdk"
)

// probe makes a case.
func probe(id string, run func(ctx context.Context, c *C)) Case {
	return Case{ID: id, Title: "tries the engine", Doc: "For tests.", Promises: []string{"1b"}, Level: Must, Profile: Core, Run: run}
}

func execute(t *testing.T, f *fake, opts Options, cases ...Case) Summary {
	t.Helper()
	opts.Cases, opts.HangGrace = cases, stdcmp.Or(opts.HangGrace, time.Hour) // which nobody waits for where the clock is a real one
	sum, err := Execute(t.Context(), InProcess(f, ""), opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func (s Summary) statuses() map[string]Status {
	m := make(map[string]Status)
	for _, r := range s.Results {
		m[r.ID] = r.Status
	}
	return m
}

func (s Summary) result(t *testing.T, id string) Result {
	t.Helper()
	i := slices.IndexFunc(s.Results, func(r Result) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no result of %s", id)
	}
	return s.Results[i]
}

func TestStatuses(t *testing.T) {
	f := &fake{features: []sdk.Feature{sdk.FeatureTTY}}
	needs := probe("needs", func(context.Context, *C) { t.Error("run without its feature") })
	needs.Needs = []sdk.Feature{sdk.FeatureTTY, sdk.FeatureUsers}
	crash := probe("crash", func(context.Context, *C) { t.Error("run without its requirement") })
	crash.Env = []Requirement{EnvCrash}
	linux := probe("linux", func(context.Context, *C) { t.Error("run without its requirement") })
	linux.Env = []Requirement{EnvProbeLinux}
	sum := execute(t, f, Options{Skip: []string{"sk*"}},
		probe("pass", func(ctx context.Context, c *C) { c.Volume(ctx) }),
		probe("fail", func(ctx context.Context, c *C) {
			c.Errorf("why", "one %d", 1)
			c.Fatalf("why", "two")
			t.Error("went on")
		}),
		probe("panic", func(context.Context, *C) { panic("at the case's disco") }),
		probe("goroutine", func(_ context.Context, c *C) { c.Go(func(context.Context) { panic("in a goroutine") }) }),
		probe("blind", func(_ context.Context, c *C) { c.NotObservable("too dark") }),
		probe("skip", func(context.Context, *C) { t.Error("run though skipped") }),
		needs, crash, linux,
	)
	want := map[string]Status{
		"pass": Pass, "fail": Fail, "panic": Error, "goroutine": Error, "blind": NotObservable, "skip": Skipped,
		"needs": Unsupported, "crash": EnvMissing, "linux": EnvMissing, nothingLeftID: Pass,
	}
	if d := cmp.Diff(want, sum.statuses()); d != "" {
		t.Error(d)
	}
	wantFailures := []Failure{{"one 1", "why", "1b"}, {"two", "why", "1b"}}
	if d := cmp.Diff(wantFailures, sum.result(t, "fail").Failures); d != "" {
		t.Error(d)
	}
	if sum.OK() {
		t.Error("a run with a failure and an error is OK")
	}
}

func TestHangingPluginEndsItsCaseOnly(t *testing.T) {
	synctest.Test(t, testHangingPluginEndsItsCaseOnly)
}

func testHangingPluginEndsItsCaseOnly(t *testing.T) {
	release := make(chan struct{})
	hung := make(chan struct{}, 1)
	f := &fake{}
	f.create = func(context.Context, sdk.VolumeSpec) error {
		<-release // whatever its context says
		hung <- struct{}{}
		return nil
	}
	hang := probe("hang", func(ctx context.Context, c *C) { c.Volume(ctx) })
	hang.Timeout = 20 * time.Millisecond
	sum := execute(t, f, Options{}, hang, probe("next", func(context.Context, *C) {}))
	if d := cmp.Diff(map[string]Status{"hang": Fail, "next": Pass, nothingLeftID: Pass}, sum.statuses()); d != "" {
		t.Error(d)
	}
	if r := sum.result(t, "hang"); len(r.Failures) != 1 || r.Failures[0].Promise != "2a" {
		t.Errorf("failures: %+v", r.Failures)
	}
	close(release)
	<-hung
}

func TestSlowCaseFailsByItsTime(t *testing.T) { synctest.Test(t, testSlowCaseFailsByItsTime) }

func testSlowCaseFailsByItsTime(t *testing.T) {
	slow := probe("slow", func(ctx context.Context, c *C) { <-ctx.Done() })
	slow.Timeout = 10 * time.Millisecond
	sum := execute(t, &fake{}, Options{}, slow)
	if r := sum.result(t, "slow"); r.Status != Fail || len(r.Failures) != 1 || r.Failures[0].Promise != "2a" {
		t.Errorf("got %+v", r)
	}
}

func TestHangingCleanUp(t *testing.T) { synctest.Test(t, testHangingCleanUp) }

func testHangingCleanUp(t *testing.T) {
	release, left := make(chan struct{}), make(chan struct{})
	f := &fake{}
	f.destroy = func(context.Context, sdk.VolumeID) error {
		<-release
		close(left)
		return nil
	}
	sum := execute(t, f, Options{CleanupTimeout: 10 * time.Millisecond}, probe("case", func(ctx context.Context, c *C) { c.Volume(ctx) }))
	if d := cmp.Diff(map[string]Status{"case": Fail, nothingLeftID: Fail}, sum.statuses()); d != "" {
		t.Error(d)
	}
	close(release)
	<-left
}

func TestCleanUpIsNewestFirstAndOwnOnly(t *testing.T) {
	f := &fake{volumes: []sdk.VolumeInfo{{ID: "someone-elses"}}}
	var made []sdk.VolumeID
	sum := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) {
		for range 3 {
			made = append(made, c.Volume(ctx))
		}
		c.OK(c.W.DestroyVolume(ctx, made[1]), "destroying")
		c.Fatalf("clean-up comes after a failure too", "stop")
	}))
	if d := cmp.Diff([]sdk.VolumeID{made[1], made[2], made[0]}, f.destroyed); d != "" {
		t.Error(d)
	}
	if s := sum.statuses()[nothingLeftID]; s != Pass {
		t.Errorf("the end of the run is %s", s)
	}
}

func TestCleanUpGoesOnWhenInterrupted(t *testing.T) {
	f := &fake{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cases := []Case{
		probe("first", func(caseCtx context.Context, c *C) {
			c.Volume(caseCtx)
			cancel()
			c.OK(context.Cause(caseCtx), "going on")
		}),
		probe("second", func(context.Context, *C) { t.Error("run after the interruption") }),
	}
	sum, err := Execute(ctx, InProcess(f, "w"), Options{Cases: cases, Parallel: 1, HangGrace: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]Status{"first": Skipped, "second": Skipped, nothingLeftID: Skipped}, sum.statuses()); d != "" {
		t.Error(d)
	}
	if len(f.volumes) != 0 {
		t.Errorf("left behind: %v", f.volumes)
	}
	if v := sum.Profiles[0].Verdict; v != Partial {
		t.Errorf("verdict is %s", v)
	}
}

func TestLeakIsFoundAtTheEnd(t *testing.T) {
	f := &fake{destroy: func(context.Context, sdk.VolumeID) error { return nil }}
	sum := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) { c.Volume(ctx) }))
	if d := cmp.Diff(map[string]Status{"case": Pass, nothingLeftID: Fail}, sum.statuses()); d != "" {
		t.Error(d)
	}
}

func TestFailedCleanUpFailsTheCase(t *testing.T) {
	f := &fake{destroy: func(context.Context, sdk.VolumeID) error { return sdk.NewInternal(nil, "no") }}
	sum := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) { c.Volume(ctx) }))
	if s := sum.statuses()["case"]; s != Fail {
		t.Errorf("the case is %s", s)
	}
}

func TestPanicOfThePluginIsItsFailure(t *testing.T) {
	f := &fake{create: func(context.Context, sdk.VolumeSpec) error { panic("plugin") }}
	sum := execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) { c.Volume(ctx) }))
	r := sum.result(t, "case")
	if r.Status != Fail || r.Failures[0].Promise != "14a" {
		t.Errorf("got %+v", r)
	}
}

func TestExpectations(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	fails := func(_ context.Context, c *C) { c.Errorf("why", "wrong") }
	sum := execute(t, &fake{}, Options{
		Now: func() time.Time { return now },
		Expected: []Expectation{
			{ID: "known", Reason: "being mended", Until: now.Add(time.Hour)},
			{ID: "over", Reason: "should have been mended", Until: now},
			{ID: "mended", Reason: "was broken", Until: now.Add(time.Hour)},
		},
	}, probe("known", fails), probe("over", fails), probe("mended", func(context.Context, *C) {}))
	want := map[string]Status{"known": ExpectedFailure, "over": Fail, "mended": Fail, nothingLeftID: Pass}
	if d := cmp.Diff(want, sum.statuses()); d != "" {
		t.Error(d)
	}
	_, err := Execute(t.Context(), InProcess(&fake{}, ""), Options{Expected: []Expectation{{ID: "known"}}}, nil)
	if err == nil {
		t.Error("an expectation without a reason and an end was taken")
	}
}

func TestRepeatStopsAtTheFirstFailure(t *testing.T) {
	var runs atomic.Int64
	ids := map[sdk.VolumeID]bool{}
	k := probe("case", func(_ context.Context, c *C) {
		ids[c.VolumeID()] = true
		if runs.Add(1) == 3 {
			c.Errorf("why", "third")
		}
	})
	k.Repeat = 5
	r := execute(t, &fake{}, Options{}, k).result(t, "case")
	if r.Status != Fail || r.Runs != 3 || runs.Load() != 3 || len(ids) != 3 {
		t.Errorf("%s after %d runs with %d ids, want fail after 3 with 3", r.Status, r.Runs, len(ids))
	}
}

func TestExclusiveCasesRunAlone(t *testing.T) {
	var now, seen atomic.Int64
	enter := func(context.Context, *C) {
		if n := now.Add(1); n > seen.Load() {
			seen.Store(n)
		}
		now.Add(-1)
	}
	var cases []Case
	for _, id := range []string{"a", "b", "c", "d"} {
		k := probe(id, enter)
		k.Exclusive = true
		cases = append(cases, k, probe("p"+id, func(context.Context, *C) { now.Add(1); defer now.Add(-1) }))
	}
	execute(t, &fake{}, Options{}, cases...)
	if seen.Load() != 1 {
		t.Errorf("an exclusive case ran beside %d others", seen.Load()-1)
	}
}

func TestSeedRepeatsRandomness(t *testing.T) {
	draw := func(seed uint64) (n uint64) {
		execute(t, &fake{}, Options{Seed: seed}, probe("case", func(_ context.Context, c *C) { n = c.Rand.Uint64() }))
		return n
	}
	first, again, other := draw(7), draw(7), draw(8)
	if first != again || first == other {
		t.Error("the seed does not decide what is drawn")
	}
}

func TestVerdicts(t *testing.T) {
	r := func(s Status) Result { return Result{Status: s, Level: Must} }
	warning := Result{Status: Fail, Level: Should}
	for _, tt := range []struct {
		results []Result
		want    Verdict
	}{
		{[]Result{r(Pass)}, Conformant},
		{[]Result{r(Pass), r(Unsupported)}, Conformant},
		{[]Result{r(Pass), warning}, Conformant},
		{[]Result{r(Unsupported)}, Partial},
		{[]Result{r(Pass), r(Skipped)}, Partial},
		{[]Result{r(Pass), r(EnvMissing)}, Partial},
		{[]Result{r(Pass), r(NotObservable)}, Partial},
		{[]Result{r(Pass), r(ExpectedFailure)}, Partial},
		{[]Result{r(Pass), r(Error)}, Partial},
		{[]Result{r(Pass), r(Skipped), r(Fail)}, Not},
	} {
		if got := verdict(tt.results); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.results, got, tt.want)
		}
	}
}

func TestOpening(t *testing.T) {
	refuse := errors.New("refused")
	broken := Opened("broken", "", func(context.Context) (sdk.Runtime, func(), error) { return nil, nil, refuse })
	if _, err := Execute(t.Context(), broken, Options{}, nil); !errors.Is(err, refuse) {
		t.Errorf("got %v, want the target's own error", err)
	}
	if _, err := Execute(t.Context(), InProcess(&fake{}, "other"), Options{}, nil); err == nil {
		t.Error("a worker that is not there was found")
	}
}

func TestHangingOpen(t *testing.T) { synctest.Test(t, testHangingOpen) }

func testHangingOpen(t *testing.T) {
	release, left := make(chan struct{}), make(chan struct{})
	hang := Opened("hanging", "", func(context.Context) (sdk.Runtime, func(), error) {
		<-release
		close(left)
		return nil, nil, errors.New("too late")
	})
	opts := Options{OpenTimeout: 10 * time.Millisecond, HangGrace: 10 * time.Millisecond}
	if _, err := Execute(t.Context(), hang, opts, nil); err == nil {
		t.Error("a target that hangs was opened")
	}
	close(release)
	<-left
}

func TestProgramThatCannotStart(t *testing.T) {
	for what, p := range map[string]Program{
		"missing":        {Path: "/no/such/plugin", Workers: []sdk.Block{{Name: "w"}}},
		"no plugin":      {Path: "/bin/sh", Args: []string{"-c", "exit 3"}, Workers: []sdk.Block{{Name: "w"}}},
		"without worker": {Path: "/bin/sh"},
	} {
		p.Launch.Logger = slog.New(slog.DiscardHandler)
		p.Launch.OpenAfter = 1
		if _, err := Execute(t.Context(), Command(p), Options{}, nil); err == nil {
			t.Errorf("%s: it was opened", what)
		}
	}
}

func TestCleanupsAreLatestFirst(t *testing.T) {
	var order []string
	f := &fake{}
	f.destroy = func(context.Context, sdk.VolumeID) error {
		order = append(order, "destroyed")
		f.volumes = nil
		return nil
	}
	execute(t, f, Options{}, probe("case", func(ctx context.Context, c *C) {
		c.Cleanup(func() { order = append(order, "first") })
		c.Cleanup(func() { order = append(order, "second") })
		c.Volume(ctx)
	}))
	if d := cmp.Diff([]string{"destroyed", "second", "first"}, order); d != "" {
		t.Error(d)
	}
}

func TestReports(t *testing.T) {
	sum := execute(t, &fake{}, Options{Only: []string{"a*"}},
		probe("a-pass", func(_ context.Context, c *C) { c.Logf("a line") }),
		probe("a-fail", func(_ context.Context, c *C) { c.Errorf("it matters", "<wrong> & \"worse\"") }),
		probe("a-like", func(_ context.Context, c *C) { c.Errorf("it matters", "volume %q is wrong", c.VolumeID()) }),
		probe("a-like-it", func(_ context.Context, c *C) {
			c.VolumeID()
			c.Errorf("it matters", "volume %q is wrong", c.VolumeID())
		}),
		probe("a-broken", func(context.Context, *C) { panic("oh") }),
		probe("a-blind", func(_ context.Context, c *C) { c.NotObservable("dark") }),
		probe("b", func(context.Context, *C) {}))

	var text strings.Builder
	if err := WriteText(&text, sum, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAIL core/a-fail", "it matters", "ERROR core/a-broken", "not-observable core/a-blind", "core     not",
		"    1 more cases have failed alike: core/a-like"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}

	var doc strings.Builder
	if err := WriteJSON(&doc, sum); err != nil {
		t.Fatal(err)
	}
	var back Summary
	if err := json.Unmarshal([]byte(doc.String()), &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sum.statuses(), back.statuses()); d != "" {
		t.Error(d)
	}

	var junit strings.Builder
	if err := WriteJUnit(&junit, sum); err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal([]byte(junit.String()), &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests != 8 || suites.Failures != 3 || suites.Errors != 1 || suites.Skipped != 2 {
		t.Errorf("%d tests, %d failures, %d errors, %d skipped; want 8, 3, 1, 2", suites.Tests, suites.Failures, suites.Errors, suites.Skipped)
	}
	if f := suites.Suites[0].Cases[1].Failure; f == nil || !strings.Contains(f.Text, `<wrong> & "worse"`) {
		t.Errorf("the failure's element is %+v", f)
	}
}

func TestRunMakesSubtests(t *testing.T) {
	var ran atomic.Int64
	k := probe("P01-x", func(ctx context.Context, c *C) { c.Volume(ctx); ran.Add(1) })
	e := probe("P02-y", func(context.Context, *C) { ran.Add(1) })
	e.Exclusive = true
	Run(t, InProcess(&fake{}, "w"), Options{Cases: []Case{k, e}})
	if ran.Load() != 2 {
		t.Errorf("%d cases ran, want 2", ran.Load())
	}
}

func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.ID] {
			t.Errorf("%s is there twice", c.ID)
		}
		seen[c.ID] = true
		if c.Title == "" || c.Doc == "" || len(c.Promises) == 0 && c.Profile != Wire || c.Run == nil || !slices.Contains(Profiles(), c.Profile) || (c.Level != Must && c.Level != Should) {
			t.Errorf("%s lacks something", c.ID)
		}
		if short(c.ID) == "x" {
			t.Errorf("%s: its head cannot stand in an id", c.ID)
		}
		var b strings.Builder
		if err := WriteExplanation(&b, c); err != nil || !strings.Contains(b.String(), c.Doc) {
			t.Errorf("%s cannot be explained: %v", c.ID, err)
		}
	}
}

func TestDroppedCasesHaveReasons(t *testing.T) {
	for _, d := range Dropped() {
		if _, ok := Find(d.ID); ok {
			t.Errorf("%s is both dropped and there", d.ID)
		}
		if d.Title == "" || d.Why == "" || len(d.Promises) == 0 {
			t.Errorf("%s lacks something", d.ID)
		}
	}
}

// TestUntested: what a worker names and nobody has tried is told as such, and is no pass.
func TestUntested(t *testing.T) {
	named := probe("a-named", func(context.Context, *C) {})
	named.Needs = []sdk.Feature{sdk.FeatureTTY}
	blind := probe("b-blind", func(_ context.Context, c *C) { c.NotObservable("dark") })
	blind.Needs = []sdk.Feature{sdk.FeatureUsers}
	rt := &fake{features: []sdk.Feature{sdk.FeatureTTY, sdk.FeatureUsers, sdk.FeatureVolatile, sdk.ResourceTypePrefix + "git"}}
	sum := execute(t, rt, Options{}, named, blind)
	if d := cmp.Diff([]sdk.Feature{sdk.FeatureUsers, sdk.FeatureVolatile}, sum.Untested); d != "" {
		t.Error(d)
	}
	var b strings.Builder
	if err := WriteText(&b, sum, TextOptions{Brief: true}); err != nil || !strings.Contains(b.String(), "named by the worker, and not tested: users, volatile\n") {
		t.Errorf("%v; the report is\n%s", err, b.String())
	}
	if sum := execute(t, rt, Options{Only: []string{"a*"}}, named, blind); len(sum.Untested) > 0 {
		t.Errorf("of a run that the user made smaller: %v", sum.Untested)
	}
}
