//go:build linux

package runc

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
)

// The cases of the gate: each kind of thing once, and once more by a shell.
var (
	smoke = []string{"P0*", "X01-*", "I0*", "S11-*", "A0*", "V0*", "C0*", "Y0*", "T01-*", "L*", "K*"}
	again = []string{"P01-*", "P02-*", "X01-*", "I01-*", "T01-*", "S11-*", "A01-*"}
)

// TestConformance holds the plugin to the contract, with what busybox has as well as with the suite's own program.
func TestConformance(t *testing.T) {
	needs(t)
	shim, probe := buildShim(t), conformance.LinuxProbe(t)
	for by, commands := range map[string]conformance.Commands{"busybox": conformance.Shell{}, "probe": probe} {
		t.Run(by, func(t *testing.T) {
			rt, _, _ := newRuntime(t, Config{Shim: shim})
			target := conformance.InProcess(rt, "here")
			target.Commands, target.Probe = commands, probe
			without := []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram} // which TestProgram has
			options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: without}
			switch {
			case by == "busybox" && testing.Short():
				options.Only = again
			case by == "busybox": // differs in what runs, not in what volumes are
				options.Only = []string{"P*", "X*", "I*", "T*", "S*", "A*", "K*", "L*"}
			case testing.Short():
				options.Only = smoke
			}
			conformance.Run(t, target, options)
		})
	}
}
