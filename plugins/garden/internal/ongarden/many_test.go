//go:build linux

package ongarden

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestManyAtOnce makes a hundred containers at once (sixteen in the gate), runs a command in each as soon as it is there, and destroys them.
func TestManyAtOnce(t *testing.T) {
	servers := gardentest.Start(t, manyContainers())
	h := openHost(t, gardenConfig(t, worker{name: "here", garden: settings(t, servers)}))
	ctx := testkit.Context(t)
	var g errgroup.Group // no step ends another
	for i := range testkit.Times(16, 100) {
		g.Go(func() error {
			owner := fmt.Sprintf("many/%d", i)
			if err := step(ctx, h, owner, host.ContainerRequest{}, host.ProcessRequest{Path: "true"}); err != nil {
				return fmt.Errorf("%s: %w", owner, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	nothingLeft(t, servers)
}
