//go:build linux

// Package node holds no Go but this test: the plugin here is written in JavaScript, without an SDK.
package node

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// needs skips where the plugin cannot run, but not in CI, where that would hide everything.
func needs(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "making containers needs root")
	}
	for _, program := range []string{"unshare", "nsenter", "perl"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v (Debian has it in util-linux and perl-base)", err)
		}
	}
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v (the plugin needs Node 20)", err)
		}
	}
}

// install puts the plugin and the .proto files into a directory of their own, as they lie in the repository, with the modules that the lock
// file names.
func install(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	plugin := filepath.Join(dir, "examples", "node")
	for _, pattern := range []string{"*.js", "*.pl", "*.json", "proto/*.proto", "../../sdk/proto/slipway/runtime/v1alpha1/*.proto"} {
		sources, err := filepath.Glob(pattern)
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: %v, %v", pattern, sources, err)
		}
		for _, name := range sources {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(plugin, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(to, text, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	npm := exec.CommandContext(testkit.Context(t), "npm", "ci", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = plugin
	npm.WaitDelay = time.Second
	if out, err := npm.CombinedOutput(); err != nil {
		testkit.Lacking(t, "npm ci: %v\n%s", err, out)
	}
	return filepath.Join(plugin, "main.js")
}

// TestConformance holds the plugin to the contract as a host runs it: a process of its own, which is killed in between.
func TestConformance(t *testing.T) {
	testkit.Soak(t, "the gate has the plugin in Python for what is not written in Go")
	needs(t)
	target := conformance.Command(conformance.Program{
		Path:    install(t),
		Plugin:  sdk.Block{Name: "node"},
		Workers: []sdk.Block{{Name: "here"}},
		Env:     map[string]string{"PATH": os.Getenv("PATH")},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	target.Commands = conformance.LinuxProbe(t)
	conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale()})
}
