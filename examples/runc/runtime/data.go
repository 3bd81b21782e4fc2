//go:build linux

package runtime

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// open opens a volume's files for one call. The volume may be destroyed meanwhile; whoever looks for it then finds that out by stillThere.
func (w *worker) open(ctx context.Context, id sdk.VolumeID, encoding string) (*volumetar.Root, volumeRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, volumeRecord{}, err
	}
	rec, err := w.volumes.read(string(id))
	if err != nil {
		return nil, rec, w.missing(err, sdk.KindVolume, string(id))
	}
	if rec.State == sdk.VolumeCreating {
		return nil, rec, halfMade(id)
	}
	if encoding != "" && encoding != sdk.EncodingRaw {
		return nil, rec, sdk.NewInvalid(sdk.ReasonEncoding, "volume %q: encoding %q is not %q", id, encoding, sdk.EncodingRaw)
	}
	root, err := volumetar.Open(w.data(id), volumetar.Options{})
	if err != nil {
		return nil, rec, w.missing(err, sdk.KindVolume, string(id))
	}
	return root, rec, nil
}

// stillThere puts NotFound of a volume that went under a call in the place of what the call met.
func (w *worker) stillThere(id sdk.VolumeID, err error) error {
	if _, readErr := w.volumes.read(string(id)); errors.Is(readErr, fs.ErrNotExist) {
		return sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	return err
}

// lockFiles keeps a volume's files from being sealed or written by an archive, unix.LOCK_SH for archives and LOCK_EX for sealing. It does not
// hold destroying back.
func (w *worker) lockFiles(ctx context.Context, id sdk.VolumeID, how int) (unlock func(), err error) {
	dir, err := os.Open(w.data(id))
	if err != nil {
		return nil, w.missing(err, sdk.KindVolume, string(id))
	}
	if err := flock(ctx, dir, how); err != nil {
		return nil, w.broken(err, "volume", string(id))
	}
	return func() { dir.Close() }, nil
}

// StreamIn unpacks into an open volume.
func (w *worker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	root, _, err := w.open(ctx, id, in.Encoding)
	if err != nil {
		return err
	}
	defer root.Close()
	unlock, err := w.lockFiles(ctx, id, unix.LOCK_SH)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := w.volumes.read(string(id))
	if err != nil {
		return w.missing(err, sdk.KindVolume, string(id))
	}
	if rec.State == sdk.VolumeSealed {
		return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(id), "volume %q is sealed and takes no archive", id)
	}
	return w.stillThere(id, root.Unpack(ctx, in.Path, r))
}

// StreamOut packs what is in a volume.
func (w *worker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, wr io.Writer) error {
	root, _, err := w.open(ctx, id, out.Encoding)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.Pack(ctx, out.Path, wr)
}

// StatFile is that of sdk.FileReader, as the next two.
func (w *worker) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	root, _, err := w.open(ctx, id, "")
	if err != nil {
		return sdk.FileInfo{}, err
	}
	defer root.Close()
	return root.Stat(ctx, path)
}

// ListFiles lists a directory.
func (w *worker) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	root, _, err := w.open(ctx, id, "")
	if err != nil {
		return err
	}
	defer root.Close()
	return root.List(ctx, dir, emit)
}

// ReadFile reads a part of a file.
func (w *worker) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, wr io.Writer) error {
	root, _, err := w.open(ctx, id, "")
	if err != nil {
		return err
	}
	defer root.Close()
	return root.ReadFile(ctx, path, offset, length, wr)
}
