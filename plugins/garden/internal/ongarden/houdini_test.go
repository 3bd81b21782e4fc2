//go:build linux

package ongarden

import (
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestHoudini runs a step on Concourse's Houdini: a server by other people that says other things than the ones of the other tests. It isolates nothing, so this
// is about the wire alone. Every container has a root of its own, a copy that Baggageclaim's naive driver makes outside Houdini's mount namespace; without one
// Houdini would empty whatever is mounted.
func TestHoudini(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{Driver: "naive", NoUserNamespaces: true})
	houdini := gardentest.StartHoudini(t)
	s := settings(t, servers)
	s.Garden = houdini.Garden
	h := openHost(t, gardenConfig(t, worker{name: "here", garden: s}))
	ctx := testkit.Context(t)
	for _, owner := range []string{"one", "two"} {
		err := step(ctx, h, owner, host.ContainerRequest{Outputs: []host.Output{{Name: "out", Path: "out"}}},
			host.ProcessRequest{Path: "sh", Args: []string{"-ec", "echo made > out/file; [ \"$(cat out/file)\" = made ]"}})
		if err != nil {
			t.Errorf("%s: %v", owner, err)
		}
	}
	nothingLeft(t, servers)
}
