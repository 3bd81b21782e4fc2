package host

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// buildMemory builds the real plugin, once for all tests.
var buildMemory = sync.OnceValues(func() (string, error) {
	return built("slipway-memory", func(file string) error {
		return testkit.Build(file, "github.com/slipway-run/slipway/plugins/memory/cmd")
	})
})

// buildSelf builds this package's tests without the race detector, once for all tests, as a host in a process of its own: in the gate the same code runs under it beside
// that, and with it each of these many processes takes a second of a processor to begin.
var buildSelf = sync.OnceValues(func() (string, error) {
	if !testing.Short() {
		return os.Args[0], nil
	}
	return built("host.test", func(file string) error {
		return testkit.BuildTests(file, "github.com/slipway-run/slipway/host")
	})
})

// builtDir is where programs are that the tests have built.
var builtDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "slipway-host-test-") })

func removeBuilt() {
	if dir, err := builtDir(); err == nil {
		os.RemoveAll(dir)
	}
}

// built gives a program that is made beside the others.
func built(name string, build func(file string) error) (string, error) {
	dir, err := builtDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	return file, build(file)
}

func memoryPlugin(t testing.TB) string {
	t.Helper()
	file, err := buildMemory()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// testWorld is a memory that outlives plugin and host: it lives in the test, which counts what was started on it. Plugins
// reach it by its socket, through a real subprocess.
type testWorld struct {
	*hooked
	socket string
}

func startWorld(t testing.TB, worker string, spill int64) *testWorld {
	t.Helper()
	return startWorldOf(t, spill, worker)
}

func startWorldOf(t testing.TB, spill int64, workers ...string) *testWorld {
	t.Helper()
	dir, err := os.MkdirTemp("", "sw") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	w := &testWorld{hooked: &hooked{Runtime: newMemory(t, workers...), spill: spill}, socket: filepath.Join(dir, "w.sock")}
	lis, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- rpc.ServeOn(ctx, lis, sdk.PluginInfo{Name: "memory", Version: "test"}, w.hooked, rpc.ServeOptions{})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil && ctx.Err() == nil {
			t.Errorf("world: %v", err)
		}
		os.RemoveAll(dir)
	})
	return w
}

// starts counts how many different starts were asked for: each has its own token.
func (w *testWorld) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tokens)
}

// left lists what is on the worker.
func (w *testWorld) left(t testing.TB, worker string) []string {
	t.Helper()
	conn, err := w.Runtime.Worker(worker)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	err = conn.ListContainers(t.Context(), sdk.Filter{}, func(i sdk.ContainerInfo) error {
		left = append(left, "container "+string(i.ID))
		return nil
	})
	if err == nil {
		err = conn.ListVolumes(t.Context(), sdk.Filter{}, func(i sdk.VolumeInfo) error {
			left = append(left, "volume "+string(i.ID))
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// worldConfig makes a host's configuration that reaches a world through the real plugin.
func worldConfig(plugin, socket, worker string) *config.Config {
	cfg, diags := config.Parse(fmt.Appendf(nil, `
plugin "memory" {
  command = %q
  config { world = "unix:%s" }
}
worker %q { plugin = "memory" }
`, plugin, socket, worker), "test.hcl")
	if diags.HasErrors() {
		panic(diags) // the test's own text
	}
	return cfg
}

// restless are launch options for plugins that are killed all the time.
func restless() launch.Options {
	return launch.Options{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, OpenAfter: 1 << 30, StopGrace: 10 * time.Second}
}
