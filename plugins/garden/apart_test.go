//go:build linux

package garden

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// goesOn has a container with a process and the Garden server end under it. It checks that both go on once the server has begun anew, for the plugin that was there before and
// for another one, which it returns. The container, one, and its volume, out, stay.
func goesOn(t *testing.T, x *world, end func()) (late *world) {
	t.Helper()
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
	late = x.with(t, func(*Config) {})
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
	return late
}

// nothingIsLeft checks that the servers, and the runc of that for containers, have no more than before.
func nothingIsLeft(t *testing.T, x *world, before map[string][]string) {
	t.Helper()
	if after := x.there(t); len(after["containers"]) != len(before["containers"]) || len(after["volumes"]) != len(before["volumes"]) {
		t.Errorf("left: %v, before it was %v", after, before)
	}
	if left, err := filepath.Glob(filepath.Join(x.Dir, "garden", "engine", "runc", "*")); err != nil || len(left) > 0 {
		t.Errorf("runc has still %q, %v", left, err)
	}
}
