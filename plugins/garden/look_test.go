//go:build linux

package garden

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestNoContainerCanBeMade has both servers answer, and a plugin that begins then make no container to see what they can. The worker is not away: what runs is
// followed, volumes are used, and who wants a container hears that there is no room.
func TestNoContainerCanBeMade(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	f := newFront(t, servers)
	x := worldOn(t, servers, nil)
	before := x.statusOf(t)
	x.container(t, sdk.ContainerSpec{ID: "there", Image: sdk.Image{Volume: "image"}})
	late := func(t *testing.T) *world {
		return x.with(t, func(c *Config) { c.Garden, c.RequestTimeout = f.address, sdk.Duration(time.Hour) }) // what hangs does so for as long as the test wants
	}
	degraded := func(t *testing.T, y *world, words string) {
		t.Helper()
		s := y.statusOf(t)
		if s.Health != sdk.Degraded || s.ContainersAway || s.VolumeIncarnation != before.VolumeIncarnation || s.ContainerIncarnation != "" {
			t.Errorf("%+v", s)
		}
		if !strings.Contains(s.Reason, f.address) || !strings.Contains(s.Reason, words) {
			t.Errorf("the reason is %q; want the address and %q", s.Reason, words)
		}
		for _, feature := range before.Features {
			if !s.Has(feature) {
				t.Errorf("%s is not named, and nobody knows that it is not there", feature)
			}
		}
		if out := y.sh(t, "there", sdk.ProcessID("in-"+strings.ReplaceAll(words, " ", "-")), "echo works"); out != "works\n" {
			t.Errorf("in a container that is there: %q", out)
		}
		y.volume(t, sdk.VolumeSpec{ID: "v"}, pack(t, plain("f", "text")))
		y.seal(t, "v")
		y.drop(t, "", "v")
	}
	healthy := func(t *testing.T, y *world) {
		t.Helper()
		if s := y.statusOf(t); s.Health != sdk.Healthy || !slices.Equal(s.Features, before.Features) {
			t.Errorf("%+v, want healthy with %v", s, before.Features)
		}
	}
	t.Run("the server hangs", func(t *testing.T) {
		y, answers := late(t), make(chan struct{})
		f.set("POST /containers", hold(answers))
		t.Cleanup(func() { f.set("POST /containers", nil) })
		y.spare = 24 * time.Hour // as if the time of each call were over but for the look
		degraded(t, y, "has not ended")
		close(answers)
		y.spare = spareTime
		healthy(t, y)
	})
	t.Run("the server breaks off", func(t *testing.T) {
		y := late(t)
		f.set("POST /containers", cut)
		t.Cleanup(func() { f.set("POST /containers", nil) })
		degraded(t, y, "make no container now")
		ctx := testkit.Context(t)
		want(t, y.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}}, nil), sdk.Exhausted, "", f.address)
		f.set("POST /containers", nil)
		healthy(t, y)
	})
}

// TestServerSaysItIsDown is a server that answers, and says of itself that it does not work, as Concourse's backend without its containerd. It is away then, and
// volumes are used on.
func TestServerSaysItIsDown(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	f := newFront(t, servers)
	x := worldOn(t, servers, func(c *Config) { c.Garden = f.address })
	before := x.statusOf(t)
	x.container(t, sdk.ContainerSpec{ID: "there", Image: sdk.Image{Volume: "image"}})
	const why = "containerd does not answer"
	all := []string{"GET /ping", "GET /containers", "POST /containers", "GET /containers/there/properties", "POST /containers/there/processes", "DELETE /containers/there"}
	for _, request := range all {
		f.set(request, refuse(why))
	}
	if s := x.statusOf(t); s.Health != sdk.Degraded || !s.ContainersAway || !strings.Contains(s.Reason, f.address) || !strings.Contains(s.Reason, why) || s.VolumeIncarnation != before.VolumeIncarnation {
		t.Errorf("%+v", s)
	}
	x.volume(t, sdk.VolumeSpec{ID: "v"}, pack(t, plain("f", "text")))
	x.seal(t, "v")
	ctx := testkit.Context(t)
	y := x.with(t, func(*Config) {}) // which knows nothing of the container
	for call, err := range map[string]error{
		"create":  y.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}}, nil),
		"list":    y.ListContainers(ctx, sdk.Filter{}, func(sdk.ContainerInfo) error { return nil }),
		"start":   y.StartProcess(ctx, "there", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/true"}),
		"destroy": y.DestroyContainer(ctx, "there"),
	} {
		t.Run(call, func(t *testing.T) { want(t, err, sdk.Unavailable, "", f.address, why) })
	}
	for _, request := range all {
		f.set(request, nil)
	}
	if s := x.statusOf(t); s.Health != sdk.Healthy || s.ContainerIncarnation != before.ContainerIncarnation {
		t.Errorf("%+v, before it was %+v", s, before)
	}
}
