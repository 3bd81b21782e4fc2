//go:build linux

package nomad

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/nomad/nomadtest"
)

// TestDocker has one agent with a real Docker for all that needs one.
func TestDocker(t *testing.T) {
	testkit.Soak(t, "the other driver")
	a := nomadtest.Start(t, nomadtest.Options{Dev: true, Docker: true, Privileged: true, HostVolumes: []string{hostVolume}})
	t.Run("conformance", func(t *testing.T) { testConformance(t, a) })
	t.Run("memory", func(t *testing.T) { testMemory(t, a) })
	t.Run("pull", func(t *testing.T) { testPull(t, a) })
	t.Run("remains", func(t *testing.T) { testRemains(t, a) })
	t.Run("program", func(t *testing.T) { testProgram(t, a) })
	t.Run("mixed", func(t *testing.T) { testMixed(t, a) })
}

// testConformance holds the plugin to the contract in this process, so that the race detector sees it. Nodes fetch what they need. What processes do once
// they are started is the shim's alone, and held to the contract on Nomad in sdk/shim/internal/onnomad: here it would only take its time.
func testConformance(t *testing.T, a *nomadtest.Agent) {
	c, lis := fetching(t, onDocker(a))
	rt, n := open(t, a, c, lis)
	ctx := testkit.Context(t)
	healthy(ctx, t, n) // then all that it can is known
	target := conformance.InProcess(rt, n.name)
	target.Probe = conformance.LinuxProbe(t)                                           // beside busybox
	without := []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram} // which testProgram has
	conformance.Run(t, target, conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: without, Skip: []string{
		"I*", "A*", "S*", "X*", "T*", "P*", "L*", "K*", // of processes
		"C35-*", "W10-*", "W22-*", "W25-*", "W26-*", // many containers at once
	}})
}
