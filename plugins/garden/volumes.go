package garden

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// CreateVolume is the store's, as all that is about volumes but sealing.
func (w *worker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if spec.Privileged && w.config.Privileged != "allow" {
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	}
	// It may be allowed, and Garden cannot make the containers that are to have it. With Garden away nobody knows.
	if spec.Privileged {
		if a, err := w.able(ctx); err == nil && !slices.Contains(a.features, sdk.FeaturePrivileged) {
			return sdk.NewUnsupported(sdk.FeaturePrivileged)
		}
	}
	return w.store.CreateVolume(ctx, spec)
}

// SealVolume has every container that can write the volume start nothing more, for good. Where Garden is away, volumes that no container can write
// are sealed all the same.
func (w *worker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.store.SealVolume(ctx, id, func(ctx context.Context) error {
		all, err := w.ours(ctx, sdk.Filter{})
		if errors.Is(err, sdk.Unavailable) {
			if written, listErr := w.mayBeWritten(ctx, id); listErr != nil || !written {
				return listErr
			}
		}
		if err != nil {
			return err
		}
		var writers []sdk.ContainerID
		for container, f := range all {
			if slices.Contains(f.writes, string(id)) {
				writers = append(writers, container)
			}
		}
		inUse := func(container sdk.ContainerID) error {
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
				"volume %q: a process lives in container %q, which can write it; end it before sealing", id, container)
		}
		// With one of many busy nothing is sealed, and then the others shall still take processes. What starts from here on is too late to be spared.
		if len(writers) > 1 {
			for _, container := range writers {
				all, err := w.Driver.ListProcesses(ctx, container)
				if err == nil && slices.ContainsFunc(all, func(p sdk.ProcessInfo) bool { return p.State == sdk.ProcessRunning }) {
					return inUse(container)
				}
			}
		}
		for _, container := range writers {
			err := w.Quiesce(ctx, container)
			switch {
			case errors.Is(err, sdk.ReasonInUse):
				return inUse(container)
			case sdk.IsNotFound(err, sdk.KindContainer), errors.Is(err, sdk.ReasonRecordLost), errors.Is(err, sdk.ReasonCreating): // nothing of it can run
			case err != nil:
				return err
			}
		}
		return nil
	})
}

// mayBeWritten asks the store alone whether a container can write a volume: each has volumes of its own there, from before it is made until after it is
// gone, which say what it writes.
func (w *worker) mayBeWritten(ctx context.Context, id sdk.VolumeID) (bool, error) {
	volumes, err := w.store.Owned(ctx, nil)
	if err != nil {
		return false, err
	}
	for _, v := range volumes {
		if v.ID != slipwayVolume(sdk.ContainerID(v.Properties[claim.OwnProperty])) || v.Properties[propProbe] != "" {
			continue // a probe mounts no volume of a host
		}
		writes, told := v.Properties[propWrites]
		if !told || slices.Contains(strings.Split(writes, ","), string(id)) { // one that an older plugin made does not tell
			return true, nil
		}
	}
	return false, nil
}

// ListVolumes is that of sdk.Worker, as the next four.
func (w *worker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	return w.store.ListVolumes(ctx, filter, emit)
}

// DestroyVolume removes a volume.
func (w *worker) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.store.DestroyVolume(ctx, id)
}

// StreamIn unpacks into an open volume.
func (w *worker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	return w.store.StreamIn(ctx, id, in, r)
}

// StreamOut packs what is in a volume.
func (w *worker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, wr io.Writer) error {
	return w.store.StreamOut(ctx, id, out, wr)
}

// PeerTicket is that of sdk.PeerStreamer.
func (w *worker) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	return w.store.PeerTicket(ctx, dst, in)
}

// PeerSend sends to another worker of the zone.
func (w *worker) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	return w.store.PeerSend(ctx, src, out, ticket)
}
