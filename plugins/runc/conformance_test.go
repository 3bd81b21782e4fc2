//go:build linux

package runc

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
)

// The cases of the gate: each kind of thing once, and once more where the keeper is another.
var (
	smoke  = []string{"P0*", "X01-*", "I0*", "S11-*", "A0*", "V0*", "C0*", "Y0*", "T01-*", "L*", "K*"}
	keeper = []string{"P01-*", "P02-*", "X01-*", "I01-*", "T01-*", "S11-*", "A01-*", "K*"}
)

// TestConformance holds the plugin to the contract, with both ways to start a keeper, and with what busybox has as well as with the
// suite's own program.
func TestConformance(t *testing.T) {
	needs(t)
	shim, probe := buildShim(t), conformance.LinuxProbe(t)
	for by, commands := range map[string]conformance.Commands{"serve": conformance.Shell{}, "init": probe} {
		t.Run(by, func(t *testing.T) {
			rt := newRuntime(t, Config{Shim: shim, Keeper: by})
			target := conformance.InProcess(rt, "here")
			target.Commands, target.Probe = commands, probe
			without := []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram} // which TestProgram has
			options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: without}
			switch {
			case by == "serve" && testing.Short():
				options.Only = keeper
			case by == "serve": // differs in the keeper, not in what volumes are
				options.Only = []string{"P*", "X*", "I*", "T*", "S*", "A*", "K*", "L*"}
			case testing.Short():
				options.Only = smoke
			}
			conformance.Run(t, target, options)
		})
	}
}
