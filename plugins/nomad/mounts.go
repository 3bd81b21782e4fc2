package nomad

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/plugins/nomad/internal/storenet"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// holding is what a container that is being made is mounted with. Nobody seals or destroys it until it is released.
type holding struct {
	lease *storenet.Lease
	binds []shim.RootMount
	own   bool   // the container's root is a clone of its image's volume
	root  string // where that is on the node, for drivers that take a directory as a root
}

// hold gets hold of a container's volumes and makes those that are its own.
func (n *node) hold(ctx context.Context, spec sdk.ContainerSpec) (*holding, error) {
	h := &holding{lease: &storenet.Lease{}, own: spec.Image.Volume != ""}
	if len(spec.Mounts) == 0 && !h.own {
		return h, nil
	}
	s, dir, err := n.volumes.open(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]sdk.VolumeID, 0, len(spec.Mounts)+1)
	for _, m := range spec.Mounts {
		ids = append(ids, m.Volume)
	}
	if h.own {
		ids = append(ids, spec.Image.Volume)
	}
	if h.lease, err = s.Share(ctx, ids...); err != nil {
		return nil, err
	}
	for _, m := range spec.Mounts {
		v := h.lease.Volumes[m.Volume]
		if v.State == sdk.VolumeSealed && !m.ReadOnly {
			h.lease.Abandon()
			return nil, sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(m.Volume), "volume %q at %q is sealed and can only be mounted read-only", m.Volume, m.Path)
		}
		at, err := n.withPoints(ctx, s, spec, m, v)
		if err == nil && !filepath.IsLocal(at) {
			err = sdk.NewInternal(nil, "the store of node %s has volume %q at %q, which is outside", short(n.id), m.Volume, at)
		}
		if err != nil {
			h.lease.Abandon()
			return nil, err
		}
		h.binds = append(h.binds, shim.RootMount{Source: path.Join(dir, at), Target: m.Path, ReadOnly: m.ReadOnly})
	}
	if h.own {
		root, entries, err := n.ownRoot(ctx, s, dir, spec)
		if err != nil {
			h.lease.Abandon()
			return nil, err
		}
		h.root, h.binds = root, append(entries, h.binds...) // docker puts outer ones first
	}
	return h, nil
}

// mounting gives the containers of this node that may live and have such a mount.
func (n *node) mounting(ctx context.Context, wanted func(sdk.Mount) bool) ([]sdk.ContainerID, error) {
	var found []sdk.ContainerID
	err := n.jobs(ctx, false, func(c container, job *api.JobListStub) {
		if c.stopped || job.Status == "dead" {
			return
		}
		for _, m := range c.spec.Mounts {
			if wanted(m) {
				found = append(found, c.spec.ID)
				return
			}
		}
	})
	return found, err
}

// jobs gives all containers of this worker; with those that it inherits, too.
func (n *node) jobs(ctx context.Context, inherited bool, each func(container, *api.JobListStub)) error {
	k := n.cluster
	asking, cancel := k.in(ctx)
	defer cancel()
	q := k.query(asking)
	q.Prefix = jobPrefix
	jobs, _, err := k.client.Jobs().ListOptions(&api.JobListOptions{Fields: &api.JobListFields{Meta: true}}, q)
	if err != nil {
		return k.fail(ctx, "listing containers", err)
	}
	known := make(map[string]bool) // nodes that were asked for
	for _, job := range jobs {
		c, ours := read(job.Meta, job.Stop)
		if !ours || jobID(c.spec.ID) != job.ID {
			continue
		}
		mine := n.owns(c)
		if !mine && inherited {
			if mine, err = n.inherits(ctx, c, known); err != nil {
				return err
			}
		}
		if mine {
			each(c, job)
		}
	}
	return nil
}

// stayQuiet has a container whose creation was cut off start nothing where a volume that it can write was sealed meanwhile.
func (n *node) stayQuiet(ctx context.Context, spec sdk.ContainerSpec) error {
	for _, m := range spec.Mounts {
		if m.ReadOnly {
			continue
		}
		s, _, err := n.volumes.open(ctx)
		if err != nil {
			return err
		}
		lease, err := s.Share(ctx, m.Volume)
		if sdk.IsNotFound(err, sdk.KindVolume) {
			continue
		}
		if err != nil {
			return err
		}
		if lease.Volumes[m.Volume].State == sdk.VolumeSealed {
			err = n.Quiesce(ctx, spec.ID)
		}
		if released := lease.Release(); err == nil || errors.Is(err, sdk.ReasonInUse) {
			err = released
		}
		if err != nil {
			return err
		}
	}
	return nil
}
