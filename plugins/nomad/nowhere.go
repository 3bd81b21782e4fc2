package nomad

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// nowhere is the worker that a block has while it has no node: because the cluster cannot be asked, or because none of its nodes is of the block. It is
// always away, and says why.
type nowhere struct{ pool *pool }

// why is the reason, as an error that a later call may not have.
func (w nowhere) why() error {
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	switch {
	case w.pool.err != nil:
		return w.pool.err
	case w.pool.seen == nil:
		return sdk.NewUnavailable(nil, "worker %q: %s has not told its nodes yet", w.pool.name, w.pool.cluster)
	}
	return sdk.NewUnavailable(nil, "worker %q: %s", w.pool.name, w.pool.none)
}

// noNode says why none of a cluster's nodes is of the block; empty if one is.
func (p *pool) noNode(nodes []*api.NodeListStub) string {
	if slices.ContainsFunc(nodes, p.wants) {
		return ""
	}
	if len(nodes) == 0 && p.c.Filter != "" {
		return fmt.Sprintf("%s has no node that filter (%s) is true of, or none that the token may see (node:read)", p.cluster, p.c.Filter)
	}
	if len(nodes) == 0 {
		return fmt.Sprintf("%s has no node at all, or none that the token may see (node:read)", p.cluster)
	}
	var pools, classes, lacking, foreign []string
	for _, n := range nodes {
		switch d := n.Drivers[p.c.Driver]; {
		case p.c.Pool != "" && n.NodePool != p.c.Pool:
			pools = append(pools, n.NodePool)
		case p.c.Class != "" && n.NodeClass != p.c.Class:
			classes = append(classes, fmt.Sprintf("%q", n.NodeClass))
		case d == nil || !d.Detected:
			lacking = append(lacking, n.Name)
		default:
			foreign = append(foreign, p.foreign(n))
		}
	}
	var why []string
	for _, part := range []struct {
		format, setting string
		of              []string
	}{
		{"%d not in the pool %q but in %s", p.c.Pool, pools}, {"%d not of the class %q but of %s", p.c.Class, classes}, {"%d without the driver %s: %s", p.c.Driver, lacking},
		{"%d not of linux/%s but of %s", p.c.Architecture, foreign},
	} {
		if n := len(part.of); n > 0 {
			slices.Sort(part.of)
			names := slices.Compact(part.of)
			const most = 8
			more := ""
			if len(names) > most {
				names, more = names[:most], " and others"
			}
			why = append(why, fmt.Sprintf(part.format, n, part.setting, strings.Join(names, ", ")+more))
		}
	}
	return fmt.Sprintf("none of the %d nodes of %s is one of the block's: %s", len(nodes), p.cluster, strings.Join(why, "; "))
}

func (w nowhere) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	return sdk.Status{Health: sdk.Away, Reason: w.why().Error(), Encodings: []string{sdk.EncodingRaw}}, nil
}

func (w nowhere) CreateVolume(context.Context, sdk.VolumeSpec) error      { return w.why() }
func (w nowhere) SealVolume(context.Context, sdk.VolumeID) error          { return w.why() }
func (w nowhere) DestroyVolume(context.Context, sdk.VolumeID) error       { return w.why() }
func (w nowhere) DestroyContainer(context.Context, sdk.ContainerID) error { return w.why() }
func (w nowhere) StreamIn(context.Context, sdk.VolumeID, sdk.StreamIn, io.Reader) error {
	return w.why()
}
func (w nowhere) StreamOut(context.Context, sdk.VolumeID, sdk.StreamOut, io.Writer) error {
	return w.why()
}
func (w nowhere) StartProcess(context.Context, sdk.ContainerID, sdk.ProcessSpec) error {
	return w.why()
}
func (w nowhere) ListVolumes(context.Context, sdk.Filter, func(sdk.VolumeInfo) error) error {
	return w.why()
}
func (w nowhere) ListContainers(context.Context, sdk.Filter, func(sdk.ContainerInfo) error) error {
	return w.why()
}
func (w nowhere) CreateContainer(context.Context, sdk.ContainerSpec, func(sdk.Progress)) error {
	return w.why()
}
func (w nowhere) ListProcesses(context.Context, sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	return nil, w.why()
}
func (w nowhere) FollowProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.Position, sdk.Follow) error {
	return w.why()
}
func (w nowhere) SignalProcess(context.Context, sdk.ContainerID, sdk.ProcessID, sdk.Signal) error {
	return w.why()
}

// Close has nothing to free.
func (w nowhere) Close() error { return nil }

var _ sdk.Worker = nowhere{}
