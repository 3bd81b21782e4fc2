package conformance

import (
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/sdk"
)

// TestBound compares with published values of the one-sided 95 % bound: the "rule of three" and tables of Clopper and Pearson.
func TestBound(t *testing.T) {
	for _, tt := range []struct {
		failed, runs int
		want         float64
	}{{0, 0, 1}, {0, 1, 0.95}, {0, 10, 0.25887}, {0, 100, 0.029513}, {0, 1000, 0.0029912}, {1, 10, 0.39416}, {5, 10, 0.77756}, {10, 10, 1}, {3, 1000, 0.0077335}} {
		if got := (Repetition{Failed: tt.failed, Runs: tt.runs}).Bound(); math.Abs(got-tt.want) > 0.0001*max(1, tt.want*100) {
			t.Errorf("%d of %d: below %.6f, want %.6f", tt.failed, tt.runs, got, tt.want)
		}
	}
}

func TestRepeat(t *testing.T) {
	f := &fake{}
	var runs atomic.Int64
	var mu sync.Mutex
	ids := map[sdk.VolumeID]bool{}
	k := probe("R-fails-sometimes", func(ctx context.Context, c *C) {
		id := c.Volume(ctx)
		mu.Lock()
		ids[id] = true
		mu.Unlock()
		if runs.Add(1)%10 == 0 {
			c.Errorf("why", "every tenth")
		}
	})
	heard := 0
	rep, err := Repeat(t.Context(), InProcess(f, ""), Options{Cases: []Case{k}}, k.ID, 50, false, func(Result) { heard++ })
	if err != nil {
		t.Fatal(err)
	}
	if rep.Runs != 50 || rep.Failed != 5 || rep.Undecided != 0 || heard != 50 || len(ids) != 50 || rep.Last == nil {
		t.Errorf("%+v, heard of %d runs with %d ids; want 5 of 50 failed", rep, heard, len(ids))
	}
	if rep.Rate() != 0.1 || rep.Bound() < 0.15 || rep.Bound() > 0.3 {
		t.Errorf("the rate is %v, below %v", rep.Rate(), rep.Bound())
	}
	if len(f.volumes) != 0 {
		t.Errorf("left behind: %v", f.volumes)
	}

	runs.Store(0)
	rep, err = Repeat(t.Context(), InProcess(f, ""), Options{Cases: []Case{k}, Parallel: 1}, k.ID, 50, true, nil)
	if err != nil || rep.Runs != 10 || rep.Failed != 1 {
		t.Errorf("until the first failure: %+v (%v), want 1 of 10", rep, err)
	}
	needs := probe("R-needs", func(context.Context, *C) {})
	needs.Needs = []sdk.Feature{sdk.FeatureTTY}
	rep, err = Repeat(t.Context(), InProcess(f, ""), Options{Cases: []Case{needs}, Parallel: 1}, needs.ID, 50, false, nil)
	if err != nil || rep.Runs != 0 || rep.Undecided != 1 || rep.Last == nil || rep.Bound() != 1 {
		t.Errorf("a case that cannot be run: %+v (%v), want one answer", rep, err)
	}
	if _, err := Repeat(t.Context(), InProcess(f, ""), Options{Cases: []Case{k}}, "X99-none", 1, false, nil); err == nil {
		t.Error("a case that is not there was repeated")
	}
	f.destroy = func(context.Context, sdk.VolumeID) error { return nil }
	good := probe("R-leaks", func(ctx context.Context, c *C) { c.Volume(ctx) })
	rep, err = Repeat(t.Context(), InProcess(f, ""), Options{Cases: []Case{good}}, good.ID, 3, false, nil)
	if err != nil || rep.Failed != 1 || rep.Last.ID != nothingLeftID {
		t.Errorf("runs that leave something behind: %+v (%v), want a failure", rep, err)
	}
}

// TestBudget: what has no time left is skipped and said to be, and the run ends.
func TestBudget(t *testing.T) { synctest.Test(t, testBudget) }

func testBudget(t *testing.T) {
	slow := probe("slow", func(ctx context.Context, c *C) { <-ctx.Done(); c.OK(context.Cause(ctx), "waiting") })
	sum, err := Execute(t.Context(), InProcess(&fake{}, ""), Options{
		Cases: []Case{slow, probe("never", func(context.Context, *C) { t.Error("run after the run's time") })}, Parallel: 1, Budget: 100 * time.Millisecond,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]Status{"slow": Skipped, "never": Skipped, nothingLeftID: Skipped}, sum.statuses()); d != "" {
		t.Error(d)
	}
	if r := sum.result(t, "slow"); !strings.Contains(r.Note, "time was up while it ran: waiting") {
		t.Errorf("the note is %q", r.Note)
	}
	if sum.Verdict() != Partial || sum.Verdict() == Conformant {
		t.Errorf("the verdict is %s", sum.Verdict())
	}
}

// TestBudgetOfAHangingPlugin: a call that goes on after the run's time is a failure that names its case.
func TestBudgetOfAHangingPlugin(t *testing.T) { synctest.Test(t, testBudgetOfAHangingPlugin) }

func testBudgetOfAHangingPlugin(t *testing.T) {
	release, left := make(chan struct{}), make(chan struct{})
	f := &fake{create: func(context.Context, sdk.VolumeSpec) error {
		<-release
		close(left)
		return nil
	}}
	sum := execute(t, f, Options{Budget: 50 * time.Millisecond}, probe("hang", func(ctx context.Context, c *C) { c.Volume(ctx) }))
	if r := sum.result(t, "hang"); r.Status != Fail || sum.Verdict() != Not {
		t.Errorf("%+v, verdict %s", r, sum.Verdict())
	}
	close(release)
	<-left
}

func TestVerdictOfWhatWasAsked(t *testing.T) {
	streams := probe("s", func(context.Context, *C) {})
	streams.Profile = Streaming
	core := probe("c", func(context.Context, *C) {})
	if sum := execute(t, &fake{}, Options{Profiles: []Profile{Streaming}}, streams, core); sum.Verdict() != Conformant {
		t.Errorf("streaming alone: %s, %+v", sum.Verdict(), sum.Profiles)
	}
	if sum := execute(t, &fake{}, Options{Only: []string{"s"}}, streams, core); sum.Verdict() != Partial {
		t.Errorf("one case of two profiles: %s", sum.Verdict())
	}
	peers, large := core, core
	peers.ID, peers.Profile, peers.Needs = "peers", P2P, []sdk.Feature{sdk.FeaturePeerStream}
	large.ID, large.Profile = "large", Stress
	if sum := execute(t, &fake{}, Options{}, streams, core, peers, large); sum.Verdict() != Conformant || sum.result(t, "large").Status != Skipped {
		t.Errorf("with a profile that the worker does not name, and one that nobody asked for: %s, %+v", sum.Verdict(), sum.Profiles)
	}
	if sum := execute(t, &fake{}, Options{Profiles: []Profile{P2P}}, streams, core, peers); sum.Verdict() != Partial {
		t.Errorf("only a profile that the worker does not name: %s", sum.Verdict())
	}
	if sum := execute(t, &fake{}, Options{Only: []string{"large"}}, streams, core, large); sum.result(t, "large").Status != Pass {
		t.Errorf("a case of a profile that runs only where it is named: %s", sum.result(t, "large").Status)
	}
}

func TestSlowestAndAgain(t *testing.T) {
	sum := Summary{Results: []Result{{ID: "a", Seconds: 1, Runs: 1}, {ID: "b", Seconds: 3, Runs: 1}, {ID: "c", Seconds: 2, Runs: 1, Status: Fail}, {ID: "d", Seconds: 9}}}
	var got []string
	for _, r := range sum.Slowest(2) {
		got = append(got, r.ID)
	}
	if d := cmp.Diff([]string{"b", "c"}, got); d != "" {
		t.Error(d)
	}
	var b strings.Builder
	if err := WriteText(&b, sum, TextOptions{Again: func(id string) string { return "do " + id }}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Count(text, "again: ") != 1 || !strings.Contains(text, "again: do c\n") {
		t.Errorf("the report is\n%s", text)
	}
}

func TestReadExpectations(t *testing.T) {
	cases := []Case{{ID: "a", Profile: Core}, {ID: "b", Profile: Core}, {ID: "V04-destroy", Profile: Core}}
	for name, id := range map[string]string{"b": "b", "core/b": "b", "V04": "V04-destroy", "core/V04": "V04-destroy", "core/V04-destroy": "V04-destroy"} {
		got, err := ReadExpectations(strings.NewReader(`[{"case":"`+name+`","reason":"#7","until":"2031-12-31"}]`), cases)
		want := []Expectation{{ID: id, Reason: "#7", Until: time.Date(2031, 12, 31, 0, 0, 0, 0, time.UTC)}}
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v %s", name, err, d)
		}
	}
	for what, text := range map[string]string{
		"no list": `{}`, "an unknown key": `[{"case":"a","reason":"r","until":"2031-12-31","id":"a"}]`, "no reason": `[{"case":"a","until":"2031-12-31"}]`,
		"no day": `[{"case":"a","reason":"r"}]`, "no such day": `[{"case":"a","reason":"r","until":"2031-02-30"}]`, "no such case": `[{"case":"c","reason":"r","until":"2031-12-31"}]`,
		"more": `[] []`, "twice": `[{"case":"a","reason":"r","until":"2031-12-31"},{"case":"core/a","reason":"r","until":"2031-12-31"}]`,
		"another profile": `[{"case":"wire/a","reason":"r","until":"2031-12-31"}]`,
	} {
		if got, err := ReadExpectations(strings.NewReader(text), cases); err == nil {
			t.Errorf("%s: got %v", what, got)
		}
	}
}
