//go:build linux

package ongarden

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestManyAtOnce makes a hundred containers at once, runs a command in each as soon as it is there, and destroys them.
func TestManyAtOnce(t *testing.T) {
	servers := gardentest.Start(t, manyContainers())
	h := openHost(t, gardenConfig(t, worker{name: "here", garden: settings(t, servers)}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var g errgroup.Group // no step ends another
	for i := range 100 {
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
