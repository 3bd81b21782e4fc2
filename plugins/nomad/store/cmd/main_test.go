//go:build linux

package main

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestProgramIsStatic builds it as make does: it needs nothing of the image that it runs in.
func TestProgramIsStatic(t *testing.T) {
	name := filepath.Join(t.TempDir(), "slipway-store")
	if err := testkit.Build(name, ".", "-ldflags", "-s -w -X main.version=1.2.3"); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a segment %v", p.Type)
		}
	}
	out, err := exec.CommandContext(t.Context(), name, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "slipway-store 1.2.3 ") {
		t.Errorf("version: %q, %v", out, err)
	}
	if err := exec.CommandContext(t.Context(), name, "serve").Run(); err == nil {
		t.Error("it serves without a directory")
	}
}
