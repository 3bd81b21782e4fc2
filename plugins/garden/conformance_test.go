//go:build linux

package garden

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestConformance holds the plugin to the contract on real servers: in this process, so that the race detector sees it.
func TestConformance(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	rt := newRuntime(t, config(t, servers))
	target := conformance.InProcess(rt, "here")
	target.Probe = conformance.LinuxProbe(t) // beside busybox
	conformance.Run(t, target, conformance.Options{Short: true})
}
