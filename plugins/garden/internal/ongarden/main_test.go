//go:build linux

package ongarden

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// built is where the programs lie side by side, as make builds them.
var built string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "slipway-built-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built = dir
	for name, pkg := range map[string]string{
		"slipway": "cmd/host", "slipway-memory": "plugins/memory/cmd", "slipway-garden": "plugins/garden/cmd", "slipway-shim-linux-" + runtime.GOARCH: "sdk/shim/cmd",
	} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program(name), "github.com/slipway-run/slipway/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	if err := os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil { // where hosts of this process look for plugins
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

func program(name string) string { return filepath.Join(built, name) }
