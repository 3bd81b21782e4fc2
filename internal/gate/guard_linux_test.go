package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLeavesNothing: what a test left running is named and killed, and fails the run, although it is in a session of its own and its parent
// is gone. What ends by itself soon is nothing left.
func TestLeavesNothing(t *testing.T) {
	t.Parallel()
	starts := `func TestA(t *testing.T) { if err := exec.Command("sh", "-c", %q).Run(); err != nil { t.Fatal(err) } }`
	out, lands := gateOn(t, fmt.Sprintf(starts, "setsid sleep 3600.25 </dev/null >/dev/null 2>&1 &"), ".")
	named := regexp.MustCompile(`left running: (\d+) .*sleep 3600.25\n`).FindStringSubmatch(out)
	if lands || named == nil || !strings.Contains(out, "FAILED go test .: it left something") {
		t.Fatal(out)
	}
	if _, err := os.Stat("/proc/" + named[1]); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it is still there:", err)
	}
	out, lands = gateOn(t, fmt.Sprintf(starts, "echo > $TMPDIR/some-file"), ".")
	if lands || !regexp.MustCompile(`left behind: .*/some-file\n`).MatchString(out) {
		t.Error(out)
	}
	out, lands = gateOn(t, fmt.Sprintf(starts, "setsid sleep 0.1 </dev/null >/dev/null 2>&1 &"), ".")
	if !lands {
		t.Error(out)
	}
}
