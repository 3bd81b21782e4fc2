package nomad

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// A host gives a Status ten seconds. The first is worth waiting for, later ones say what is known.
const (
	firstPatience = 6 * time.Second
	patience      = 2 * time.Second
)

// Status tells what the cluster says of the node, what a container of it has shown, and what its store says. It waits for neither of these long: where
// something is missing the rest of the node works.
func (n *node) Status(ctx context.Context) (sdk.Status, error) {
	if err := ctx.Err(); err != nil {
		return sdk.Status{}, err
	}
	s := sdk.Status{Health: sdk.Healthy, ContainerIncarnation: n.id, Encodings: []string{sdk.EncodingRaw}}
	stub, err := n.pool.stub(n.name)
	if err != nil {
		s.Health, s.Reason = sdk.Away, err.Error()
		return s, nil
	}
	s.Capacity.Containers = int64(n.followable())
	if stub != nil && stub.NodeResources != nil {
		memory, _ := forTasks(stub)
		s.Capacity.MemoryBytes = memory << 20
		s.Capacity.CPUMillis = int64(stub.NodeResources.Cpu.TotalCpuCores) * 1000
	}
	within, stop := context.WithTimeout(ctx, n.patience())
	defer stop()
	switch where := n.condition(); {
	case where == api.NodeStatusReady:
		if s.Features, err = n.able(within); err != nil {
			degrade(&s, "not all is known of what the node can do: "+err.Error())
		}
		if _, no := errors.AsType[*denied](err); no { // nothing else is allowed, either
			s.Health = sdk.Away
			return s, ctx.Err()
		}
	case stub != nil && stub.Status == api.NodeStatusReady:
		// What runs there goes on and is followed; nothing new comes.
		s.Features = n.found()
		degrade(&s, "node "+short(n.id)+" takes no work: it is "+where)
	default:
		s.Health, s.Reason = sdk.Away, "node "+short(n.id)+" is "+where
		return s, nil
	}
	n.withVolumes(within, &s)
	return s, ctx.Err()
}

func (n *node) patience() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := !n.asked
	n.asked = true
	if first {
		return firstPatience
	}
	return patience
}

// degrade adds a reason why not all works.
func degrade(s *sdk.Status, why string) {
	if s.Reason != "" {
		why = s.Reason + "; " + why
	}
	s.Health, s.Reason = sdk.Degraded, why
}

// withVolumes adds what the store says of itself, if it does so before ctx ends.
func (n *node) withVolumes(ctx context.Context, s *sdk.Status) {
	if n.pool.c.Store == nil {
		return
	}
	store, _, err := n.volumes.open(ctx)
	var of sdk.Status
	if err == nil {
		of, err = store.Status(ctx)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		degrade(s, n.volumes.down().Error())
		return
	case err != nil:
		degrade(s, err.Error())
		return
	}
	s.VolumeIncarnation, s.Encodings, s.Zone = of.VolumeIncarnation, of.Encodings, of.Zone
	s.Capacity.DiskBytes, s.Used.DiskBytes = of.Capacity.DiskBytes, of.Used.DiskBytes
	s.Features = slices.Concat(s.Features, of.Features)
	slices.Sort(s.Features)
	s.Features = slices.Compact(s.Features)
	if n.pool.c.Driver != "exec" {
		if err := n.mounts(); err != nil {
			degrade(s, err.Error())
		}
	}
}

// found gives what is known of what the node can do, without a look.
func (n *node) found() []sdk.Feature {
	n.mu.Lock()
	found := n.look.found
	n.mu.Unlock()
	if found == nil {
		return n.sure()
	}
	return found
}

func (n *node) destroy(ctx context.Context, id sdk.ContainerID) error {
	unlock, err := n.locks.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	n.mark(id, true)
	defer n.mark(id, false)
	return n.remove(ctx, id, nil)
}

// attribute is one of the node's driver's.
func (n *node) attribute(name string) string {
	stub, _ := n.pool.stub(n.name)
	if stub == nil || stub.Drivers[n.pool.c.Driver] == nil {
		return ""
	}
	return stub.Drivers[n.pool.c.Driver].Attributes[name]
}
