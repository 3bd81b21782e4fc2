//go:build linux

package garden

import (
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestGuardianRestarted has guardian itself end, in order and by a kill, with containers under way. After the first they go on. After the second it has forgotten
// those that it did not know when it was last stopped in order: they are gone, and are taken away.
func TestGuardianRestarted(t *testing.T) {
	testkit.Soak(t, "the gate neither downloads nor builds guardian; runcgarden has its manners")
	x := newWorld(t, gardentest.Options{Guardian: true}, nil)
	if s := x.statusOf(t); s.Health != sdk.Healthy || !s.Has(sdk.FeatureLimitsMemory) || !s.Has(sdk.FeatureLimitsPIDs) || !s.Has(sdk.FeatureUsers) {
		t.Fatalf("%+v", s)
	}
	before := x.there(t)
	goesOn(t, x, func() { x.StopGarden(t) })

	two := sdk.ContainerSpec{ID: "two", Image: sdk.Image{Volume: "image"}}
	x.container(t, two)
	x.KillGarden()
	x.StartGarden(t)
	late := x.with(t, func(*Config) {})
	if info := late.containers(t)["two"]; info.State != sdk.ContainerGone {
		t.Errorf("after a kill, of what it did not know before: %+v", info)
	}
	if info := late.containers(t)["one"]; info.State != sdk.ContainerGone && info.State != sdk.ContainerReady {
		t.Errorf("after a kill, of what it did know before: %+v", info)
	} else {
		t.Logf("after a kill, what guardian knew when it was last stopped in order is %s", info.State)
	}
	two.Token = token
	want(t, late.CreateContainer(testkit.Context(t), two, nil), sdk.FailedPrecondition, sdk.ReasonDead)
	late.drop(t, "one")
	late.drop(t, "two")
	if err := late.DestroyVolume(testkit.Context(t), "out"); err != nil {
		t.Error(err)
	}
	nothingIsLeft(t, late, before)
	testPrivileged(t, late)
}
