//go:build linux

package onnomad

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// built is where programs lie, as make builds them.
var built string

func TestMain(m *testing.M) {
	flag.Parse() // for the tier
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(built)
		os.Exit(1)
	}
	testkit.Main(m, func() { os.RemoveAll(built) })
}

// build makes the programs.
func build() error {
	dir, err := os.MkdirTemp("", "slipway-built-")
	if err != nil {
		return err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // tasks of other users run what is in it
		return err
	}
	if testing.Short() {
		return nil // all of its tests are the soak's
	}
	for name, pkg := range map[string]string{"slipway-shim": "sdk/shim/cmd", "slipway-store": "plugins/nomad/store/cmd"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program(name), "github.com/slipway-run/slipway/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

func program(name string) string { return filepath.Join(built, name) }
