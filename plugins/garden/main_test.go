//go:build linux

package garden

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buildShim builds the program for containers.
func buildShim(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slipway-shim")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/slipway-run/slipway/sdk/shim/cmd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

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
	rt, err := New(map[string]Config{"here": c}, Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
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
