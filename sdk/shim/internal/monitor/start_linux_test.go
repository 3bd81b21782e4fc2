package monitor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestBusy: a program that was just written may be open in a process that its writer forked. That passes, and is waited for.
func TestBusy(t *testing.T) {
	for name, c := range map[string]struct {
		busy   int // how often the kernel says so
		then   error
		want   error
		within time.Duration
	}{
		"never":           {0, nil, nil, 0},
		"for a moment":    {3, nil, nil, time.Second},
		"another error":   {0, unix.EACCES, unix.EACCES, 0},
		"then no program": {1, unix.ENOEXEC, unix.ENOEXEC, time.Second},
		"somebody has it": {1 << 30, nil, unix.ETXTBSY, stillWritten + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				since := time.Now()
				err := whileBusy(func() error {
					if c.busy--; c.busy >= 0 {
						return unix.ETXTBSY
					}
					return c.then
				})
				if took := time.Since(since); err != c.want || took > c.within {
					t.Errorf("%v after %v, want %v within %v", err, took, c.want, c.within)
				}
			})
		})
	}
}

// TestEnvTwice: a process has the last variable of each name alone, where it stands, and its command is sought in the last PATH.
func TestEnvTwice(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	given := [][]byte{[]byte("A=1"), []byte("PATH=/nowhere"), []byte("AB=2"), []byte("A=3=4"), []byte("PATH=" + dir), []byte("HOME=/h")}
	env := withDefaults(given, user{})
	if want := []string{"AB=2", "A=3=4", "PATH=" + dir, "HOME=/h"}; !slices.Equal(env, want) {
		t.Errorf("the environment is %q, want %q", env, want)
	}
	if found, err := lookPath("program", env); err != nil || !slices.Equal(found, []string{program}) {
		t.Errorf("the program is at %q: %v", found, err)
	}
}
