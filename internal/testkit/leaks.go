package testkit

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakGrace is how long goroutines that were told to end may take. A leak stays for ever, so a long grace hides none.
const leakGrace = 30 * time.Second

// Main runs a package's tests and exits: with 1 if one failed, or if goroutines are left when all have passed. The functions are called
// in between, whatever the outcome.
func Main(m *testing.M, cleanup ...func()) {
	code := m.Run()
	for _, f := range cleanup {
		f()
	}
	if code == 0 {
		if err := leaksWithin(leakGrace); err != nil {
			fmt.Fprintf(os.Stderr, "leak: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// NoLeaks fails a test that leaves goroutines which were not there when NoLeaks was called. It is for tests that do not run in parallel.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := leaksWithin(leakGrace, before); err != nil {
			t.Errorf("leak: %v", err)
		}
	})
}

func leaksWithin(grace time.Duration, options ...goleak.Option) error {
	for end := time.Now().Add(grace); ; {
		err := goleak.Find(options...) // it tries for half a second
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
