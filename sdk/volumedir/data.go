//go:build linux

package volumedir

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// open opens a volume's files for one call, which may find the volume destroyed under it.
func (s *Store) open(ctx context.Context, id sdk.VolumeID, encoding string) (*volumetar.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return nil, err
	}
	rec, err := s.shelf.Read(string(id))
	if err != nil {
		return nil, missing(err, id)
	}
	if rec.State == sdk.VolumeCreating {
		return nil, halfMade(id)
	}
	if encoding != "" && encoding != sdk.EncodingRaw {
		return nil, sdk.NewInvalid(sdk.ReasonEncoding, "volume %q: encoding %q is not %q", id, encoding, sdk.EncodingRaw)
	}
	root, err := volumetar.Open(s.Dir(id), s.o.Archives)
	return root, missing(err, id)
}

// settle puts NotFound of a volume that went under a call in the place of what the call met.
func (s *Store) settle(id sdk.VolumeID, err error) error {
	if _, readErr := s.shelf.Read(string(id)); errors.Is(readErr, fs.ErrNotExist) {
		return sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	return err
}

// lockFiles keeps a volume's files from being sealed, or written by an archive. It does not hold destroying back.
func (s *Store) lockFiles(ctx context.Context, id sdk.VolumeID, how shelf.Mode) (unlock func(), err error) {
	unlock, err = shelf.LockFile(ctx, s.shelf.Path(string(id), filesLock), how)
	return unlock, missing(err, id)
}

// StreamIn unpacks into an open volume.
func (s *Store) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	root, err := s.open(ctx, id, in.Encoding)
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := s.lockFiles(ctx, id, shelf.Shared)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := s.shelf.Read(string(id))
	if err != nil {
		return missing(err, id)
	}
	if rec.State == sdk.VolumeSealed {
		return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(id), "volume %q is sealed and takes no archive", id)
	}
	return s.settle(id, root.Unpack(ctx, in.Path, r))
}

// StreamOut packs what is in a volume. One that is destroyed meanwhile is NotFound, however much of it had been packed.
func (s *Store) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error {
	root, err := s.open(ctx, id, out.Encoding)
	if err != nil {
		return err
	}
	defer root.Close()
	sink := sdk.KeepWriter(w)
	err = root.Pack(ctx, out.Path, sink)
	if own := sink.Err(); own != nil {
		return own
	}
	if ctx.Err() != nil {
		return err
	}
	return s.settle(id, err)
}

// StatFile tells about a file.
func (s *Store) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	root, err := s.open(ctx, id, "")
	if err != nil {
		return sdk.FileInfo{}, err
	}
	defer root.Close()
	return root.Stat(ctx, path)
}

// ListFiles lists a directory.
func (s *Store) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	root, err := s.open(ctx, id, "")
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.List(ctx, dir, emit); err != nil {
		return err
	}
	return s.settle(id, nil)
}

// ReadFile reads a part of a file.
func (s *Store) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, w io.Writer) error {
	root, err := s.open(ctx, id, "")
	if err != nil {
		return err
	}
	defer root.Close()
	return root.ReadFile(ctx, path, offset, length, w)
}
