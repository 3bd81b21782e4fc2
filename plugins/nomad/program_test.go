//go:build linux

package nomad

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
	"github.com/slipway-run/slipway/sdk"
)

// testProgram runs the plugin's program as a host does, and kills it: containers, processes and volumes must not notice.
func testProgram(t *testing.T, a *nomadtest.Agent) {
	text, err := json.Marshal(onDocker(a))
	if err != nil {
		t.Fatal(err)
	}
	target := conformance.Command(conformance.Program{
		Path:    program("slipway-nomad"),
		Plugin:  sdk.Block{Name: "nomad"},
		Workers: []sdk.Block{{Name: "pool", Values: text}},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	target.Worker = "pool/" + a.NodeID()[:8]
	conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Profiles: []conformance.Profile{conformance.Recovery, conformance.Wire}, Skip: []string{
		"R01-*", "R03-*", "R05-*", "R15-*", // weaker than the others, or the same more often
		"R06-*", "R09-*", "R11-*", "R12-*", "R14-*", // of processes, which the shim keeps: see sdk/shim/internal/onnomad
	}})
}
