//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "enter" { // this program is the plugin, where its functions are called here
		enter()
	}
	if os.Getenv(cutState) != "" {
		cut()
	}
	testkit.Main(m, func() {
		if shim.path != "" {
			os.RemoveAll(filepath.Dir(shim.path))
		}
	})
}

// needs skips where containers cannot be made, but not in CI, where that would hide everything.
func needs(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "making containers needs root")
	}
	for _, program := range []string{"nsenter", "busybox", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Lacking(t, "%v (install Debian's util-linux and busybox-static)", err)
		}
	}
}

// build builds a program of this module.
func build(t *testing.T, path, pkg string, flags ...string) {
	t.Helper()
	if err := testkit.Build(path, "github.com/slipway-run/slipway/"+pkg, flags...); err != nil {
		t.Fatal(err)
	}
}

// newState makes a directory for a worker; at the end nothing may be left in it, nor run or be mounted because of it.
func newState(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		for _, kind := range []string{"containers", "containers/.trash"} {
			left, err := os.ReadDir(filepath.Join(dir, kind))
			left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == ".trash" })
			if err != nil || len(left) > 0 {
				t.Errorf("%s: left %v, %v", kind, left, err)
			}
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil || strings.Contains(string(mounts), dir) {
			t.Errorf("something is still mounted below %s: %v", dir, err)
		}
		roots, err := filepath.Glob("/proc/[0-9]*/root")
		if err != nil {
			t.Error(err)
		}
		for _, root := range roots {
			if at, err := os.Readlink(root); err == nil && strings.HasPrefix(at, dir) {
				t.Errorf("%s is still %s", root, at)
			}
		}
	})
	return dir
}

// smoke are the cases of the gate: what moves much, and the crashes. Profile core is run there by package sdk/guide, on this same program.
var smoke = []string{"I05-*", "I07-*", "T01-*", "R01-*", "R04-*", "R10-*", "R18-*"}

// TestConformance holds the plugin to the contract as a host runs it: a process of its own, which is killed in between.
func TestConformance(t *testing.T) {
	needs(t)
	bin, state := t.TempDir(), newState(t)
	var flags []string
	options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale()}
	if testing.Short() {
		options.Only = smoke
	} else if testkit.Race {
		flags = []string{"-race"} // a race that is found fails the case, for it ends the plugin
	}
	build(t, filepath.Join(bin, "slipway-chroot"), "examples/chroot", flags...)
	build(t, filepath.Join(bin, "slipway-shim"), "sdk/shim/cmd")
	target := conformance.Command(conformance.Program{
		Path:    filepath.Join(bin, "slipway-chroot"),
		Plugin:  sdk.Block{Name: "chroot"},
		Workers: []sdk.Block{{Name: "here", Values: json.RawMessage(fmt.Sprintf(`{"state":%q}`, state))}},
		Env:     map[string]string{"GORACE": "halt_on_error=1"},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	target.Probe = conformance.LinuxProbe(t) // beside busybox
	conformance.Run(t, target, options)
}
