//go:build linux

package garden

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

func TestMain(m *testing.M) { testkit.Main(m, func() { os.RemoveAll(shimDir) }) }

// shimDir is where the program for containers is, once it is built.
var shimDir string

// buildShim builds the program for containers, once for all tests.
func buildShim(t testing.TB) string {
	t.Helper()
	path, err := builtShim()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtShim = sync.OnceValues(func() (path string, err error) {
	if shimDir, err = os.MkdirTemp("", "slipway-shim-"); err != nil {
		return "", err
	}
	path = filepath.Join(shimDir, "slipway-shim")
	return path, testkit.Build(path, "github.com/slipway-run/slipway/sdk/shim/cmd")
})

// config is a worker on the servers, with busybox for containers that have no image.
func config(t testing.TB, s *gardentest.Servers) Config {
	t.Helper()
	return Config{
		Garden: s.Garden, Baggageclaim: s.Baggageclaim, Shim: buildShim(t), Rootfs: s.Volume(t, "busybox", gardentest.Busybox(t), false) + "/rootfs",
		Privileged: "allow", Hermetic: "probe",
	}
}

// newRuntime makes a runtime with one worker "here".
func newRuntime(t testing.TB, c Config) *Runtime {
	t.Helper()
	return runtimeOf(t, map[string]Config{"here": c})
}

// runtimeOf makes a runtime with these workers.
func runtimeOf(t testing.TB, workers map[string]Config) *Runtime {
	t.Helper()
	rt, err := New(workers, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}
