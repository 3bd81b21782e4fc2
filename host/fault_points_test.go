package host

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaultPointsAreWalked: each point that is marked around a change is where some test kills the host, or stops it.
func TestFaultPointsAreWalked(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	marked := make(map[string]string) // where, by point
	var tests strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			tests.Write(text)
			continue
		}
		for _, m := range regexp.MustCompile(`\bfault\("([a-z-]+)"\)`).FindAllSubmatch(text, -1) {
			marked[string(m[1])] = file
		}
	}
	if len(marked) < 20 {
		t.Errorf("only %d points were found: %v", len(marked), marked)
	}
	for point, file := range marked {
		if !strings.Contains(tests.String(), `"`+point+`"`) {
			t.Errorf("%s marks %q, and no test goes there", file, point)
		}
	}
}
