//go:build linux

package onnomad

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/internal/testkit"
)

// built is where programs lie, as make builds them, once one is asked for: most of these tests are the soak's.
var built string

func TestMain(m *testing.M) { testkit.Main(m, func() { os.RemoveAll(built) }) }

// programs makes the directory for them, and those that every test here needs.
var programs = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "slipway-built-")
	if err != nil {
		return err
	}
	built = dir
	if err := os.Chmod(dir, 0o755); err != nil { // tasks of other users run what is in it
		return err
	}
	var building errgroup.Group // a linker uses one processor
	building.Go(func() error { return build("slipway-shim", "sdk/shim/cmd") })
	building.Go(func() error { return build("slipway-store", "plugins/nomad/store/cmd") })
	return building.Wait()
})

// hostPrograms makes what a host in a process of its own needs: only in the tests of the package host it can be told where to die.
var hostPrograms = sync.OnceValue(func() error {
	if err := programs(); err != nil {
		return err
	}
	var building errgroup.Group
	building.Go(func() error { return build("slipway-nomad", "plugins/nomad/cmd") })
	building.Go(func() error {
		return testkit.BuildTests(filepath.Join(built, "host.test"), "github.com/slipway-run/slipway/host")
	})
	return building.Wait()
})

func build(name, pkg string) error {
	if err := testkit.Build(filepath.Join(built, name), "github.com/slipway-run/slipway/"+pkg); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func program(name string) string {
	if err := programs(); err != nil {
		panic(err)
	}
	return filepath.Join(built, name)
}
