//go:build linux

package garden

import (
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestSealWhatIsWrittenUnlisted has a server forget its containers, as guardian does when it is killed, while a process in one of them goes on writing. Its volume is
// not sealed until it is destroyed; that of one in which all has ended is.
func TestSealWhatIsWrittenUnlisted(t *testing.T) {
	x := newWorld(t, gardentest.Options{LikeGuardian: true}, nil)
	x.statusOf(t)
	ctx := testkit.Context(t)
	for _, id := range []string{"busy", "idle"} {
		x.volume(t, sdk.VolumeSpec{ID: sdk.VolumeID(id)}, nil)
		x.container(t, sdk.ContainerSpec{ID: sdk.ContainerID(id), Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: sdk.VolumeID(id), Path: "/w"}}})
		x.sh(t, sdk.ContainerID(id), "ended", "echo text >/w/f")
	}
	if err := x.StartProcess(ctx, "busy", sdk.ProcessSpec{ID: "writes", Token: token, Path: "/bin/sh", Args: []string{"-c", "touch /w/begun; exec sleep 3600"}}); err != nil {
		t.Fatal(err)
	}
	x.awaitFile(t, "busy", "begun")
	x.KillGarden()
	x.StartGarden(t)
	late := x.with(t, func(*Config) {})
	// In this order: a volume that is sealed is not looked at again, and the first of them knew the containers.
	for _, c := range []struct {
		name string
		by   *world
	}{{"the plugin that saw it go", x}, {"a plugin that begins", late}} {
		t.Run(c.name, func(t *testing.T) {
			by := c.by
			want(t, by.SealVolume(ctx, "busy"), sdk.FailedPrecondition, sdk.ReasonInUse, `"busy"`, "does not list")
			by.seal(t, "idle")
			for _, id := range []sdk.ContainerID{"busy", "idle"} {
				want(t, by.StartProcess(ctx, id, sdk.ProcessSpec{ID: "late", Token: token, Path: "/bin/true"}), sdk.FailedPrecondition, sdk.ReasonDead)
			}
		})
	}
	late.drop(t, "busy")
	late.seal(t, "busy")
}
