//go:build linux

package ongarden

import (
	"log/slog"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// pluginProgram is the plugin's program as a target of the suite, which may kill it.
func pluginProgram(t *testing.T, c garden.Config) conformance.Target {
	return conformance.Command(conformance.Program{
		Path:    program("slipway-garden"),
		Plugin:  sdk.Block{Name: "garden"},
		Workers: []sdk.Block{block(t, "here", c)},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
}

// TestProgram runs the plugin as a host does, and kills it: containers, processes and volumes must not notice. What it holds in its memory is held to
// the contract in the package garden, under the race detector. The naive driver has clones of another kind.
func TestProgram(t *testing.T) {
	for name, run := range map[string]struct {
		driver   string
		profiles []conformance.Profile
		gate     []string // the cases that the gate takes; the soak takes all
	}{
		"best":  {"", []conformance.Profile{conformance.Recovery, conformance.Streaming, conformance.Wire}, []string{"R02-kill-running", "R07-kill-stream", "R18-kill-create"}},
		"naive": {"naive", []conformance.Profile{conformance.Streaming}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if run.gate == nil {
				testkit.Soak(t, "the naive driver's clones and streams in the package claim are enough for the gate")
			}
			servers := gardentest.Start(t, gardentest.Options{Driver: run.driver})
			options := conformance.Options{Short: true, Profiles: run.profiles, TimeScale: 10 * testkit.TimeScale()}
			if testing.Short() {
				options.Only = run.gate
			}
			conformance.Run(t, pluginProgram(t, settings(t, servers)), options)
		})
	}
}
