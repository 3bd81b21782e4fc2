package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// maxBytes is what the program may weigh: it is copied into every container.
const maxBytes = 4 << 20

// TestProgramIsStaticAndSmall builds it as make does.
func TestProgramIsStaticAndSmall(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "slipway-shim")
			cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name, ".")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", info.Size())
			if info.Size() > maxBytes {
				t.Errorf("it has %d bytes, more than %d", info.Size(), maxBytes)
			}
			f, err := elf.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if f.Machine != machine {
				t.Errorf("it is for %v", f.Machine)
			}
			for _, p := range f.Progs {
				if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
					t.Errorf("it has a segment %v: it needs something of the image", p.Type)
				}
			}
			if arch != runtime.GOARCH || runtime.GOOS != "linux" {
				return
			}
			out, err := exec.CommandContext(t.Context(), name, "version").Output()
			if err != nil || !strings.HasPrefix(string(out), "slipway-shim ") {
				t.Errorf("version: %q, %v", out, err)
			}
			if err := exec.CommandContext(t.Context(), name, "serve").Run(); err == nil {
				t.Error("it takes a call without arguments")
			}
		})
	}
}
