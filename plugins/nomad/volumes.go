package nomad

import (
	"context"
	"errors"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// CreateVolume is the store's, as all that is about volumes.
func (n *node) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if spec.Privileged && !n.privileged() {
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	}
	if n.pool.c.Driver == "exec" { // before anything is streamed here that no container can have
		return n.mounts()
	}
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	spec.Labels = n.pool.labelled(spec.Labels)
	return s.CreateVolume(ctx, spec)
}

// SealVolume has every container that can write the volume start nothing more, for good.
func (n *node) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.SealVolume(ctx, id, func(ctx context.Context) error { return n.quiesce(ctx, id) })
}

// quiesce quiets all writers of a volume, or none where a process lives in one: those that are idle can then still take processes.
func (n *node) quiesce(ctx context.Context, id sdk.VolumeID) error {
	writers, err := n.mounting(ctx, func(m sdk.Mount) bool { return m.Volume == id && !m.ReadOnly })
	if err != nil {
		return err
	}
	inUse := func(container sdk.ContainerID, why string) error {
		return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id), "volume %q: %s container %q, which can write it", id, why, container)
	}
	if len(writers) > 1 {
		for _, container := range writers {
			all, err := n.Driver.ListProcesses(ctx, container)
			for _, p := range all {
				if err == nil && p.State == sdk.ProcessRunning {
					return inUse(container, "end process "+string(p.ID)+" before sealing it; it lives in")
				}
			}
		}
	}
	for _, container := range writers {
		err := n.Quiesce(ctx, container)
		switch {
		case errors.Is(err, sdk.ReasonInUse):
			return inUse(container, "end what lives there before sealing it, in")
		case errors.Is(err, sdk.ReasonCreating): // its job is there and may start at any time; nobody waits for it, or he would hold the volume
			return inUse(container, "destroy before sealing it the half made")
		case sdk.IsNotFound(err, sdk.KindContainer), errors.Is(err, sdk.ReasonRecordLost): // nothing of it can run
		case err != nil:
			return err
		}
	}
	return nil
}

// ListVolumes is that of sdk.Worker. Without a store there are none.
func (n *node) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if n.pool.c.Store == nil {
		return ctx.Err()
	}
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.ListVolumes(ctx, filter, func(v sdk.VolumeInfo) error {
		if isOwn(v.Labels) || !n.keeps(v.Labels, filter) {
			return nil
		}
		delete(v.Labels, blockKey)
		return emit(v)
	})
}

// DestroyVolume removes a volume. A container that mounts it keeps an empty directory: the host sees to it that there is none.
func (n *node) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if n.pool.c.Store == nil {
		return ctx.Err()
	}
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.DestroyVolume(ctx, id)
}

// StreamIn unpacks into an open volume.
func (n *node) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.StreamIn(ctx, id, in, r)
}

// StreamOut packs what is in a volume.
func (n *node) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.StreamOut(ctx, id, out, w)
}

// StatFile is that of sdk.FileReader, as the next two.
func (n *node) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return sdk.FileInfo{}, err
	}
	return s.StatFile(ctx, id, path)
}

// ListFiles lists a directory.
func (n *node) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.ListFiles(ctx, id, dir, emit)
}

// ReadFile reads a part of a file.
func (n *node) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, w io.Writer) error {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.ReadFile(ctx, id, path, offset, length, w)
}

// PeerTicket is that of sdk.PeerStreamer.
func (n *node) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	return s.PeerTicket(ctx, dst, in)
}

// PeerSend has this node's store send to another.
func (n *node) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	s, _, err := n.volumes.open(ctx)
	if err != nil {
		return err
	}
	return s.PeerSend(ctx, src, out, ticket)
}
