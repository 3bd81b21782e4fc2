//go:build linux

package garden

import (
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestConcourseRestarted has the Garden server of a Concourse worker end, in order and by a kill, and its containerd with it, while containers are under way. They go on
// over both: containerd keeps what it knows on its disk.
func TestConcourseRestarted(t *testing.T) {
	testkit.Soak(t, "the gate neither downloads nor builds Concourse's backend; runcgarden has its manners")
	x := newWorld(t, gardentest.Options{Concourse: true}, nil)
	if s := x.statusOf(t); s.Health != sdk.Healthy || !s.Has(sdk.FeatureLimitsMemory) || !s.Has(sdk.FeatureLimitsPIDs) || !s.Has(sdk.FeatureUsers) || s.Has(sdk.FeatureNetworkNone) {
		t.Fatalf("%+v", s) // this backend is from before Concourse had hermetic tasks: all containers have the network
	}
	before := x.there(t)
	for name, end := range map[string]func(){"stopped": func() { x.StopGarden(t) }, "killed": x.KillGarden} {
		t.Run(name, func(t *testing.T) {
			goesOn(t, x, end).drop(t, "one")
		})
	}
	t.Run("what it refused it lists", func(t *testing.T) { testRefusedIsListed(t, x) })
	t.Run("the first process has died", func(t *testing.T) { testFirstProcessDied(t, x) })
	t.Run("privileged", func(t *testing.T) { testPrivileged(t, x) })
	nothingIsLeft(t, x, before)
}
