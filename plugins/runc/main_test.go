//go:build linux

package runc

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// needs ends a test where containers cannot be made.
func needs(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root, to make containers")
	}
	for _, program := range []string{"runc", "busybox", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v (install Debian's runc and busybox-static)", err)
		}
	}
}

// buildShim builds the program for containers.
func buildShim(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slipway-shim")
	if err := testkit.Build(path, "github.com/slipway-run/slipway/sdk/shim/cmd"); err != nil {
		t.Fatal(err)
	}
	return path
}

// newRuntime makes a runtime with one worker "here", in a directory that is removed at the end together with all that is in it.
func newRuntime(t *testing.T, c Config) (sdk.Runtime, *machine.Worker, Config) {
	t.Helper()
	return changedRuntime(t, c, func(*machine.Functions) {})
}

// changedRuntime makes one with other functions.
func changedRuntime(t *testing.T, c Config, change func(*machine.Functions)) (sdk.Runtime, *machine.Worker, Config) {
	t.Helper()
	if c.State == "" {
		dir, err := os.MkdirTemp("", "runc")
		if err != nil {
			t.Fatal(err)
		}
		c.State = dir
		t.Cleanup(func() { removeState(t, dir) })
	}
	functions, options, err := open("here", c)
	if err != nil {
		t.Fatal(err)
	}
	change(&functions)
	options.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := machine.Open(t.Context(), "here", functions, options)
	if err != nil {
		t.Fatal(err)
	}
	rt := machine.NewRuntime(map[string]*machine.Worker{"here": w})
	t.Cleanup(func() {
		destroyAll(t, w)
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt, w, c
}

func destroyAll(t *testing.T, w *machine.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(t))
	defer cancel()
	var containers []sdk.ContainerID
	err := w.ListContainers(ctx, sdk.Filter{}, func(c sdk.ContainerInfo) error { containers = append(containers, c.ID); return nil })
	if err != nil {
		t.Error(err)
	}
	for _, id := range containers {
		if err := w.DestroyContainer(ctx, id); err != nil {
			t.Error(err)
		}
	}
}

// removeState removes a worker's directory, unless a container is left in it.
func removeState(t *testing.T, dir string) {
	t.Helper()
	for _, sub := range []string{"containers", "containers/.trash", "engine/bundles", "engine/runc"} {
		left, err := os.ReadDir(filepath.Join(dir, sub))
		left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == ".trash" })
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, error %v; not removing %s", sub, left, err, dir)
			return
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}
