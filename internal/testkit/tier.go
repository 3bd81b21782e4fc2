package testkit

import (
	"os"
	"testing"
)

// Soak leaves a test, or the rest of it, to the soak. why says what there is to be found that the gate need not look for.
func Soak(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("soak: " + why)
	}
}

// Times is how often something is repeated: gate times in the gate, soak times in the soak.
func Times(gate, soak int) int {
	if testing.Short() {
		return gate
	}
	return soak
}

// Lacking ends a test that the machine has no means for; what names the means, and how to get them. Where CI is set to true nothing may
// be lacking: the test fails, because a skip would hide all that it shows.
func Lacking(t testing.TB, what string, args ...any) {
	t.Helper()
	end := t.Skipf
	if CI() {
		end = t.Fatalf
	}
	end("lacking: "+what, args...)
}

// CI reports whether this is a run that decides whether a change lands.
func CI() bool { return os.Getenv("CI") == "true" }
