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
			ctx := testkit.Context(t)
			x.volume(t, sdk.VolumeSpec{ID: "out"}, nil)
			x.container(t, sdk.ContainerSpec{
				ID: "one", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "out", Path: "/out"}},
				Limits: sdk.Resources{MemoryBytes: 64 << 20, PIDs: 100},
			})
			process := sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/sh", User: "1000:1000", Args: []string{"-c", "id -u; until [ -e /out/go ]; do usleep 10000; done; echo went on"}}
			if err := x.StartProcess(ctx, "one", process); err != nil {
				t.Fatal(err)
			}
			end()
			x.StartGarden(t)
			late := x.with(t, func(*Config) {})
			if info := late.containers(t)["one"]; info.State != sdk.ContainerReady {
				t.Fatalf("listed as %+v", info)
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
			if out := late.sh(t, "one", "another", "echo more"); out != "more\n" {
				t.Errorf("another process: %q", out)
			}
			late.drop(t, "one")
		})
	}
	t.Run("what it refused it lists", func(t *testing.T) { testRefusedIsListed(t, x) })
	t.Run("the first process has died", func(t *testing.T) { testFirstProcessDied(t, x) })
	t.Run("privileged", func(t *testing.T) { testPrivileged(t, x) })
	if after := x.there(t); len(after["containers"]) != len(before["containers"]) || len(after["volumes"]) != len(before["volumes"]) {
		t.Errorf("left: %v, before it was %v", after, before)
	}
	if left, err := filepath.Glob(filepath.Join(x.Dir, "garden", "engine", "runc", "*")); err != nil || len(left) > 0 {
		t.Errorf("runc has still %q, %v", left, err)
	}
}
