//go:build linux

package runtime

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
)

// smoke are the cases of the gate where only the keeper differs.
var smoke = []string{"P01-*", "P02-*", "X01-*", "I01-*", "T01-*", "S11-*", "A01-*", "K*"}

// TestConformance holds the plugin to the contract, with both ways to start a keeper, and with what busybox has as well as with the
// suite's own program.
func TestConformance(t *testing.T) {
	needs(t)
	shim, probe := buildShim(t), conformance.LinuxProbe(t)
	for keeper, commands := range map[string]conformance.Commands{"serve": conformance.Shell{}, "init": probe} {
		t.Run(keeper, func(t *testing.T) {
			rt := newRuntime(t, Config{Shim: shim, Keeper: keeper})
			target := conformance.InProcess(rt, "here")
			target.Commands, target.Probe = commands, probe
			without := []conformance.Requirement{conformance.EnvCrash} // which TestProgram has
			options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: without}
			if keeper == "serve" { // differs in the keeper, not in what volumes are
				options.Only = []string{"P*", "X*", "I*", "T*", "S*", "A*", "K*", "L*"}
				if testing.Short() {
					options.Only = smoke
				}
			}
			conformance.Run(t, target, options)
		})
	}
}
