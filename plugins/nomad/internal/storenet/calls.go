package storenet

import (
	"context"
	"errors"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// Status tells how the volumes are: the volumes' incarnation, features, encodings and zone of the node's whole status.
func (s *Store) Status(ctx context.Context) (sdk.Status, error) {
	status, err := s.worker.Status(ctx)
	return status, s.settle(err)
}

// CreateVolume is that of sdk.Worker, as the next four.
func (s *Store) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	return s.settle(s.worker.CreateVolume(ctx, spec))
}

// ListVolumes lists them.
func (s *Store) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	var own error
	err := s.worker.ListVolumes(ctx, filter, func(v sdk.VolumeInfo) error { own = emit(v); return own })
	return s.unless(own, err)
}

// DestroyVolume removes a volume.
func (s *Store) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	return s.settle(s.worker.DestroyVolume(ctx, id))
}

// StreamIn unpacks into an open volume.
func (s *Store) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	src := sdk.KeepReader(r)
	err := s.worker.StreamIn(ctx, id, in, src)
	if own := src.Err(); own != nil {
		return s.unless(own, err)
	}
	return s.settle(err)
}

// StreamOut packs what is in a volume.
func (s *Store) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error {
	dst := sdk.KeepWriter(w)
	err := s.worker.StreamOut(ctx, id, out, dst)
	return s.unless(dst.Err(), err)
}

// StatFile is that of sdk.FileReader, as the next two.
func (s *Store) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	info, err := s.worker.StatFile(ctx, id, path)
	return info, s.settle(err)
}

// ListFiles lists a directory.
func (s *Store) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	var own error
	err := s.worker.ListFiles(ctx, id, dir, func(f sdk.FileInfo) error { own = emit(f); return own })
	return s.unless(own, err)
}

// ReadFile reads a part of a file.
func (s *Store) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, w io.Writer) error {
	dst := sdk.KeepWriter(w)
	err := s.worker.ReadFile(ctx, id, path, offset, length, dst)
	return s.unless(dst.Err(), err)
}

// PeerTicket is that of sdk.PeerStreamer. The ticket holds where other stores reach this one.
func (s *Store) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	ticket, err := s.worker.PeerTicket(ctx, dst, in)
	return ticket, s.settle(err)
}

// PeerSend has this store send to another.
func (s *Store) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	return s.settle(s.worker.PeerSend(ctx, src, out, ticket))
}

// unless settles the error of a call, but for one that is the caller's own: that may be of a plugin that has gone, on the caller's other side.
func (s *Store) unless(own, err error) error {
	if errors.Is(own, sdk.ReasonPluginGone) {
		return err
	}
	return s.settle(err)
}
