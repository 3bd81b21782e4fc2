//go:build linux

package onnomad

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// built is where programs lie, as make builds them, once one is asked for: all of these tests are the soak's.
var built string

func TestMain(m *testing.M) { testkit.Main(m, func() { os.RemoveAll(built) }) }

// programs makes them.
var programs = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "slipway-built-")
	if err != nil {
		return err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // tasks of other users run what is in it
		return err
	}
	for name, pkg := range map[string]string{"slipway-shim": "sdk/shim/cmd", "slipway-store": "plugins/nomad/store/cmd"} {
		if err := testkit.Build(filepath.Join(dir, name), "github.com/slipway-run/slipway/"+pkg); err != nil {
			return err
		}
	}
	return nil
})

func program(name string) string {
	if err := programs(); err != nil {
		panic(err)
	}
	return filepath.Join(built, name)
}
