// Package wasitest builds the program that tests of WASI run.
package wasitest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Build gives the probe as a WASI program. It needs the go command, and takes a second or two.
func Build(t testing.TB) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "probe.wasm")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "github.com/slipway-run/slipway/plugins/memory/internal/wasi/wasitest/probe")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
