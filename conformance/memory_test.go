package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc/rpctest"
)

// bareMemory is the reference runtime without anything in between.
func bareMemory(t *testing.T) sdk.Runtime {
	t.Helper()
	rt := memory.New([]string{"mem"}, memory.Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func memoryTarget(rt sdk.Runtime) Target {
	target := InProcess(rt, "mem")
	target.Bare = true // its programs are part of it
	return target
}

// patience is what the times of cases are multiplied by: here they are for hangs only, and the machine may have a lot else to do.
const patience = 5

// Long loops look for faults of the runtime, and run on it bare; on the ways to it the short ones do.
func bareOptions() Options { return Options{Short: testing.Short(), TimeScale: patience} }

func options() Options { return Options{Short: true, TimeScale: patience} }

func TestMemoryBare(t *testing.T) {
	Run(t, memoryTarget(bareMemory(t)), bareOptions())
}

func TestMemoryOverRPC(t *testing.T) {
	Run(t, memoryTarget(rpctest.Pair(t, bareMemory(t))), options())
}

// buildMemory builds the plugin's program.
func buildMemory(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slipway-memory")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../plugins/memory/cmd")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func memoryProgram(t *testing.T, path, settings string) Target {
	t.Helper()
	target := Command(Program{
		Path:    path,
		Plugin:  sdk.Block{Name: "memory", Values: json.RawMessage(settings)},
		Workers: []sdk.Block{{Name: "mem"}},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	target.Bare = true
	return target
}

func TestMemoryProcess(t *testing.T) {
	Run(t, memoryProgram(t, buildMemory(t), `{}`), options())
}

// TestMemoryWorld kills plugins whose containers live in another process.
func TestMemoryWorld(t *testing.T) {
	path := buildMemory(t)
	dir, err := os.MkdirTemp("", "world")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	world := exec.Command(path, "world", "--socket", socket, "--worker", "mem")
	world.Stderr = t.Output()
	stdout, err := world.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := world.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		world.Process.Signal(os.Interrupt)
		if err := world.Wait(); err != nil {
			t.Errorf("the world ended with %v", err)
		}
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("the world said %q and then %v", line, err)
	}
	Run(t, memoryProgram(t, path, fmt.Sprintf(`{"world":%q}`, "unix:"+socket)), options())
}
