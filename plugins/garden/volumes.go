package garden

import (
	"context"
	"io"
	"slices"

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
