//go:build linux

package runc

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// TestProgram runs the plugin as a host does, and kills it: containers and processes must not notice.
func TestProgram(t *testing.T) {
	needs(t)
	dir, err := os.MkdirTemp("", "runc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		removeState(t, filepath.Join(dir, "state"))
		for _, program := range []string{"slipway-runc", shimName(), "."} {
			if err := os.Remove(filepath.Join(dir, program)); err != nil {
				t.Error(err)
			}
		}
	})
	program := filepath.Join(dir, "slipway-runc")
	if err := testkit.Build(program, "github.com/slipway-run/slipway/plugins/runc/cmd"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(buildShim(t), filepath.Join(dir, shimName())); err != nil { // where the plugin looks by itself
		t.Fatal(err)
	}
	target := conformance.Command(conformance.Program{
		Path:    program,
		Plugin:  sdk.Block{Name: "runc"},
		Workers: []sdk.Block{{Name: "here", Values: json.RawMessage(fmt.Sprintf(`{"state":%q}`, filepath.Join(dir, "state")))}},
		Env:     map[string]string{"PATH": os.Getenv("PATH")},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	conformance.Run(t, target, conformance.Options{
		Short: true, TimeScale: 10 * testkit.TimeScale(), Profiles: []conformance.Profile{conformance.Recovery, conformance.Streaming, conformance.Wire},
	})
}

// shimName is what make build calls the shim of this machine.
func shimName() string { return "slipway-shim-linux-" + runtime.GOARCH }
