//go:build linux

package runtime

import (
	"testing"

	"github.com/slipway-run/slipway/conformance"
)

// TestConformance holds the plugin to the contract, with both ways to start a keeper.
func TestConformance(t *testing.T) {
	needs(t)
	shim := buildShim(t)
	for _, keeper := range []string{"serve", "init"} {
		t.Run(keeper, func(t *testing.T) {
			rt := newRuntime(t, Config{Shim: shim, Keeper: keeper})
			target := conformance.InProcess(rt, "here")
			target.Linux = true // by busybox
			conformance.Run(t, target, conformance.Options{Short: true})
		})
	}
}
