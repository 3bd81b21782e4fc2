package nomad

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

const probePrefix = "probe-x-"

func isProbe(id sdk.ContainerID) bool { return strings.HasPrefix(string(id), probePrefix) }

// probe makes a container to see what its keeper can do.
func (n *node) probe(ctx context.Context) ([]sdk.Feature, error) {
	id := sdk.ContainerID(probePrefix + strings.ToLower(rand.Text()))
	err := n.create(ctx, sdk.ContainerSpec{ID: id, Token: sdk.NewToken()}, func(sdk.Progress) {})
	n.dropProbes(ctx, id)
	if errors.Is(err, sdk.Unsupported) && n.pool.c.Driver == "raw_exec" && n.mounts() == nil {
		n.cannotMount(err)
		return n.probe(ctx)
	}
	if err != nil {
		return nil, err
	}
	info, err := n.Ready(ctx, id)
	undo, cancel := undo(ctx)
	defer cancel()
	if left := n.destroy(undo, id); left != nil {
		n.log.Warn("a probe's container is left", "container", id, "error", left)
	}
	if err != nil {
		return nil, err
	}
	for _, note := range info.Notes {
		n.log.Info("processes in containers", "note", note)
	}
	features := append(n.sure(), info.Features...)
	slices.Sort(features)
	return slices.Compact(features), nil
}

// dropProbes takes away what plugins left that were killed while they looked: hosts never hear of probes, so nobody else does. A probe is left whose plugin is
// known to have ended; or, where that cannot be told from here, that was made so long before one's own that nobody waits for it any more. Both times are the servers'.
func (n *node) dropProbes(ctx context.Context, own sdk.ContainerID) {
	type probe struct {
		id   sdk.ContainerID
		at   int64 // when it was made
		left bool
	}
	var others []probe
	var now int64
	err := n.jobs(ctx, true, func(c container, job *api.JobListStub) {
		switch {
		case c.spec.ID == own:
			now = job.SubmitTime
		case isProbe(c.spec.ID):
			others = append(others, probe{c.spec.ID, job.SubmitTime, c.node != n.id || hasEnded(c.maker)})
		}
	})
	if err != nil && ctx.Err() == nil {
		n.log.Warn("whether probes' containers are left is not known", "error", err)
	}
	longest := time.Duration(n.pool.c.PlaceTimeout) + time.Duration(n.pool.c.StartTimeout) + cleanup
	for _, p := range others {
		if !p.left && (now == 0 || time.Duration(now-p.at) < longest) {
			continue
		}
		within, cancel := context.WithTimeout(ctx, cleanup)
		if err := n.destroy(within, p.id); err != nil {
			n.log.Warn("a probe's container that another plugin left cannot be taken away", "container", p.id, "error", err)
		}
		cancel()
	}
}
