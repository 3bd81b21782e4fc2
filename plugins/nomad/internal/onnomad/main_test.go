//go:build linux

package onnomad

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// built is where programs lie, as make builds them.
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
	if err := os.Chmod(dir, 0o755); err != nil { // tasks of other users run what is in it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse() // for the tier
	if testing.Short() {
		return m.Run() // all of them are the soak's
	}
	for name, pkg := range map[string]string{"slipway-shim": "sdk/shim/cmd", "slipway-store": "plugins/nomad/store/cmd"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program(name), "github.com/slipway-run/slipway/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", pkg, err, out)
			return 1
		}
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
