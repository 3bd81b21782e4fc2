//go:build unix

package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/internal/testkit"
)

// What is no regular file is refused at once: nobody ever writes to this pipe, and /dev/zero has no end.
func TestLoadRefusesWhatIsNoFile(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "f.hcl")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{fifo: " is not a regular file", "/dev/zero": " is not a regular file", t.TempDir(): " is a directory"} {
		if _, diags := config.Load(name); len(diags) != 1 || !strings.Contains(diags[0].Detail, name+says) {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

func TestLoadReadsNoMoreThanItTakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.hcl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil { // more than any memory
		testkit.Lacking(t, "a file system with sparse files: %v", err)
	}
	if _, diags := config.Load(file); len(diags) != 1 || diags[0].Summary != "File out of bounds" {
		t.Errorf("%v", diags)
	}
}
