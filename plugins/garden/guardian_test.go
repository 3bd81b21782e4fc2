//go:build linux

package garden

import (
	"os"
	"path/filepath"
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
	ctx := testkit.Context(t)
	x.volume(t, sdk.VolumeSpec{ID: "out"}, nil)
	before := x.there(t)
	spec := sdk.ContainerSpec{
		ID: "one", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "out", Path: "/out"}},
		Limits: sdk.Resources{MemoryBytes: 64 << 20, PIDs: 100},
	}
	x.container(t, spec)
	process := sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", User: "1000:1000", Args: []string{"-c", "id -u; until [ -e /out/go ]; do usleep 10000; done; echo went on"}}
	if err := x.StartProcess(ctx, "one", process); err != nil {
		t.Fatal(err)
	}
	x.StopGarden(t)
	x.StartGarden(t)
	late := x.with(t, func(*Config) {})
	if info := late.containers(t)["one"]; info.State != sdk.ContainerReady {
		t.Fatalf("after a stop in order: %+v", info)
	}
	if err := os.WriteFile(filepath.Join(x.VolumesDir(), "live", "out", "volume", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var f follower
	for _, by := range []*world{x, late} { // the second goes on where the first has come to
		if err := by.followOn(ctx, "one", "p", &f); err != nil || f.exit == nil || f.exit.Code != 0 || f.text.String() != "1000\nwent on\n" {
			t.Errorf("following it: %v, %+v, %q", err, f.exit, f.text.String())
		}
	}

	two := spec
	two.ID, two.Mounts = "two", nil
	x.container(t, two)
	x.KillGarden()
	x.StartGarden(t)
	late = x.with(t, func(*Config) {})
	if info := late.containers(t)["two"]; info.State != sdk.ContainerGone {
		t.Errorf("after a kill, of what it did not know before: %+v", info)
	}
	if info := late.containers(t)["one"]; info.State != sdk.ContainerGone && info.State != sdk.ContainerReady {
		t.Errorf("after a kill, of what it did know before: %+v", info)
	} else {
		t.Logf("after a kill, what guardian knew when it was last stopped in order is %s", info.State)
	}
	two.Token = token
	want(t, late.CreateContainer(ctx, two, nil), sdk.FailedPrecondition, sdk.ReasonDead)
	late.drop(t, "one")
	late.drop(t, "two")
	if after := late.there(t); len(after["containers"]) != len(before["containers"]) || len(after["volumes"]) != len(before["volumes"]) {
		t.Errorf("left: %v, before it was %v", after, before)
	}
	if left, err := filepath.Glob(filepath.Join(x.Dir, "garden", "engine", "runc", "*")); err != nil || len(left) > 0 {
		t.Errorf("runc has still %q, %v", left, err)
	}
	testPrivileged(t, late)
}
