package conformance

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

// testTimeScale is what Options.TimeScale is under go test where nothing is said.
const testTimeScale = 10

// Run makes a subtest of each case, named such as "core/P01-run-true", in parallel where the case allows it. Of what gives no answer the
// subtest is skipped, for a reason that begins with "unsupported: ", "not observable: " or "env-missing: ", or with "soak: " where
// [Options.Short] leaves it out. Cases that the options do not choose have no subtest.
func Run(t *testing.T, target Target, opts Options) {
	t.Helper()
	if opts.TimeScale <= 0 {
		opts.TimeScale = testTimeScale
	}
	s, err := openSuite(t.Context(), target, opts)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var results []Result
	one := func(t *testing.T, kase Case) {
		r := s.run(t.Context(), kase)
		mu.Lock()
		results = append(results, r)
		mu.Unlock()
		conclude(t, r)
	}
	for _, p := range Profiles() {
		t.Run(string(p), func(t *testing.T) {
			for _, exclusive := range []bool{true, false} { // parallel ones begin when this function has returned
				for _, kase := range s.opts.Cases {
					if kase.Profile != p || kase.Exclusive != exclusive || s.opts.deselected(kase) != "" {
						continue
					}
					t.Run(kase.ID, func(t *testing.T) {
						if !exclusive {
							t.Parallel()
						}
						one(t, kase)
					})
				}
			}
		})
	}
	last := NothingLeft()
	t.Run(string(last.Profile)+"/"+last.ID, func(t *testing.T) { one(t, last) })
	if err := s.close(t.Context()); err != nil {
		t.Error(err)
	}
	var b strings.Builder
	if err := WriteText(&b, s.summary(results), TextOptions{Brief: true}); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", b.String())
}

// LinuxProbe builds the suite's own program for containers of this machine's kind.
func LinuxProbe(t testing.TB) Probe {
	t.Helper()
	file, err := BuildProbe(t.Context(), t.TempDir(), "linux/"+runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	probe, err := LoadProbe(file)
	if err != nil {
		t.Fatal(err)
	}
	return probe
}

// conclude turns a result into that of a test.
func conclude(t *testing.T, r Result) {
	t.Helper()
	for _, line := range r.Log {
		t.Log(line)
	}
	report := t.Errorf
	if r.Warning() {
		report = func(format string, args ...any) { t.Logf("warning: "+format, args...) }
	}
	switch r.Status {
	case Pass:
	case Fail:
		if r.Note != "" {
			t.Log(r.Note)
		}
		for _, f := range r.Failures {
			report("%s\n    %s%s", f.What, f.promise(), f.Why)
		}
	case Error:
		t.Errorf("the suite itself: %s", r.Note)
	default:
		t.Skip(skipReason(r))
	}
}

// skipReason says first of which kind it is that a case has no answer.
func skipReason(r Result) string {
	kind := string(r.Status)
	switch {
	case r.Status == NotObservable:
		kind = "not observable"
	case r.Status == Skipped && r.Note == tooLong: // Short has chosen that; an interruption is no choice
		kind = "soak"
	}
	return kind + ": " + r.Note
}
