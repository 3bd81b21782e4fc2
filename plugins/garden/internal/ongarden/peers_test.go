//go:build linux

package ongarden

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
)

// TestZone has a volume go from one pair of servers to another, which are in one zone: directly, by whoever the settings say, and not through the host.
func TestZone(t *testing.T) {
	for _, peers := range []string{"servers", "plugin"} {
		t.Run(peers, func(t *testing.T) {
			ctx := testkit.Context(t)
			cfg, servers := twoWorkers(t, "here", peers)
			h := openHost(t, cfg)
			dir := t.TempDir()
			write(t, dir+"/file", "from a to b\n")
			source, err := h.AddDir(ctx, "source", "zone", dir)
			check(t, err)
			check(t, step(ctx, h, "first", inputOn("a", source, nil), host.ProcessRequest{Path: "true"}))
			var way atomic.Value
			check(t, step(ctx, h, "second", inputOn("b", source, func(e host.Event) {
				if e.Stream != nil && e.Stream.Done {
					way.Store(fmt.Sprintf("%s>%s via %s", e.Stream.From, e.Stream.To, e.Stream.Via))
				}
			}), host.ProcessRequest{Path: "grep", Args: []string{"-x", "from a to b", "in/file"}}))
			if want := "a>b via " + host.ViaDirect; way.Load() != want {
				t.Errorf("it went %v, want %s", way.Load(), want)
			}
			check(t, h.RemoveArtifact(ctx, source))
			for _, s := range servers {
				nothingLeft(t, s)
			}
		})
	}
}
