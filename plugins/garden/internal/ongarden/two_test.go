//go:build linux

package ongarden

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
)

// TestTwoInstallations has two hosts, each with a plugin of its own, on one pair of servers: neither reaps what the other has there, even with no
// grace for what it does not know, and what is left when one of them has gone is the other's.
func TestTwoInstallations(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	ctx := testkit.Context(t)
	type installation struct {
		*host.Host
		container *host.Container
		input     *host.Artifact
	}
	var both []installation
	here := worker{name: "here", garden: settings(t, servers)}
	for _, name := range []string{"one", "two"} {
		cfg := gardenConfig(t, here)
		cfg.Timing.MissingGrace = time.Millisecond
		cfg.Reaping.Every = time.Hour // only when this test says so
		h := openHost(t, cfg)
		input, err := h.AddDir(ctx, name, "of/"+name, randomDir(t, 1<<10))
		check(t, err)
		c, err := h.Container(ctx, "same/owner", host.ContainerRequest{
			Inputs: []host.Input{{Artifact: input, Path: "in"}}, Outputs: []host.Output{{Name: "out", Path: "out"}},
		})
		check(t, err)
		both = append(both, installation{h, c, input})
	}
	containers, volumes := servers.Containers(t), servers.Volumes(t)
	for range 3 {
		for i, at := range both {
			report, err := at.Reap(ctx, false)
			check(t, err)
			for _, v := range report.Verdicts {
				if v.Action != host.ReapKeep || v.Err != nil {
					t.Errorf("installation %d: %+v", i, v)
				}
			}
		}
	}
	if now := servers.Containers(t); !sameNames(now, containers) {
		t.Errorf("containers are %q and were %q", now, containers)
	}
	if now := servers.Volumes(t); !sameNames(now, volumes) {
		t.Errorf("volumes are %q and were %q", now, volumes)
	}
	check(t, errors.Join(both[0].container.Destroy(ctx), both[0].RemoveArtifact(ctx, both[0].input)))
	if left := servers.Containers(t); len(left) != 1 || !slices.Contains(containers, left[0]) {
		t.Errorf("with one gone there is %q of %q", left, containers)
	}
	p, err := both[1].container.Start(ctx, host.MainProcess, host.ProcessRequest{Path: "test", Args: []string{"-s", "in/random"}})
	check(t, err)
	if o, err := p.Wait(ctx); err != nil || o.Exit == nil || o.Exit.Code != 0 {
		t.Errorf("the other's container: %+v, %v", o, err)
	}
	check(t, errors.Join(both[1].container.Destroy(ctx), both[1].RemoveArtifact(ctx, both[1].input)))
	nothingLeft(t, servers)
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
