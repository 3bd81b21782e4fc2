//go:build linux

package garden

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestGardenAway takes away one of the two servers. All that is about volumes goes on, also in a plugin that begins then; what is about containers names
// the server, and goes on by itself when that is back.
func TestGardenAway(t *testing.T) {
	x := newWorld(t, gardentest.Options{}, nil)
	before := x.statusOf(t)
	if before.Health != sdk.Healthy || before.ContainersAway {
		t.Fatalf("%+v", before)
	}
	x.volume(t, sdk.VolumeSpec{ID: "written"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "there", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "written", Path: "/w"}}})
	x.KillGarden()
	late := x.with(t, func(*Config) {})
	for name, by := range map[string]*world{"the plugin that saw it go": x, "a plugin that begins": late} {
		t.Run(name, func(t *testing.T) { by.onlyVolumes(t, before) })
	}
	x.StartGarden(t)
	for _, by := range []*world{x, late} {
		if s := by.statusOf(t); s.Health != sdk.Healthy || s.ContainersAway || s.ContainerIncarnation != before.ContainerIncarnation || !slices.Equal(s.Features, before.Features) {
			t.Errorf("with garden back: %+v, before it was %+v", s, before)
		}
	}
	if out := x.sh(t, "there", "p", "echo again"); out != "again\n" {
		t.Errorf("in the container: %q", out)
	}
	x.seal(t, "written")
}

// onlyVolumes looks at a worker whose Garden server is away, and that has a container "there" which can write the volume "written".
func (x *world) onlyVolumes(t *testing.T, before sdk.Status) {
	ctx := testkit.Context(t)
	s := x.statusOf(t)
	if s.Health != sdk.Degraded || !s.ContainersAway || !strings.Contains(s.Reason, x.Garden) || strings.Contains(s.Reason, x.Baggageclaim) {
		t.Errorf("%v, containers away %v, %q", s.Health, s.ContainersAway, s.Reason)
	}
	if s.VolumeIncarnation != before.VolumeIncarnation || s.ContainerIncarnation != "" || !s.Has(sdk.FeatureImageVolume) {
		t.Errorf("%+v", s)
	}
	text := pack(t, plain("f", "text"))
	x.volume(t, sdk.VolumeSpec{ID: "new"}, text)
	x.seal(t, "new")
	x.volume(t, sdk.VolumeSpec{ID: "clone", Clone: "new"}, nil)
	var out bytes.Buffer
	if err := x.StreamOut(ctx, "clone", sdk.StreamOut{Path: "f"}, &out); err != nil || !bytes.Contains(out.Bytes(), []byte("text")) {
		t.Errorf("reading: %v", err)
	}
	var listed []string
	if err := x.ListVolumes(ctx, sdk.Filter{}, func(v sdk.VolumeInfo) error { listed = append(listed, string(v.ID)); return nil }); err != nil || !slices.Contains(listed, "new") {
		t.Errorf("listed are %q, %v", listed, err)
	}
	x.drop(t, "", "clone", "new")
	for call, err := range map[string]error{
		"seal what a container can write": x.SealVolume(ctx, "written"),
		"create":                          x.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}}, nil),
		"list":                            x.ListContainers(ctx, sdk.Filter{}, func(sdk.ContainerInfo) error { return nil }),
		"start":                           x.StartProcess(ctx, "there", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/true"}),
		"follow":                          x.FollowProcess(ctx, "there", "p", 0, sdk.Follow{}),
		"destroy":                         x.DestroyContainer(ctx, "there"),
	} {
		t.Run(call, func(t *testing.T) { want(t, err, sdk.Unavailable, "", x.Garden) })
	}
}

// TestLookGoesOn gives up a call while the plugin looks at what its servers can: a host does so after ten seconds. The look is gone on with, or a server that is
// slower than that would never be known.
func TestLookGoesOn(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	proxy := gardentest.NewProxy(t, servers.Garden)
	c := config(t, servers)
	c.Garden = proxy.Address()
	w := workerOf(t, newRuntime(t, c))
	proxy.Freeze()
	ctx, giveUp := context.WithCancel(testkit.Context(t))
	defer giveUp()
	done := make(chan error, 1)
	go func() { _, err := w.able(ctx); done <- err }()
	testkit.Until(t, "garden is asked", func() bool { return proxy.Connections() > 0 })
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the call that was given up: %v", err)
	}
	proxy.Thaw()
	testkit.Until(t, "it is known what the servers can", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.abilities != nil
	})
}
