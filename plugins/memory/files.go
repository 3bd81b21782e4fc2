package memory

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"

	"github.com/slipway-run/slipway/sdk"
)

// StatFile describes a file of a volume.
func (w *worker) StatFile(ctx context.Context, id sdk.VolumeID, name string) (sdk.FileInfo, error) {
	v, err := w.hold(id)
	if err != nil {
		return sdk.FileInfo{}, err
	}
	defer w.release(v)
	info, err := v.tree.Lstat(name)
	if err != nil {
		return sdk.FileInfo{}, fileError(ctx, v, name, err)
	}
	return v.fileInfo(name, info), nil
}

// ListFiles emits a directory as it is at one moment.
func (w *worker) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	v, err := w.hold(id)
	if err != nil {
		return err
	}
	defer w.release(v)
	entries, err := v.tree.List(dir)
	if err != nil {
		return fileError(ctx, v, dir, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return fileError(ctx, v, dir, err)
		}
		if err := emit(v.fileInfo(path.Join(dir, e.Name()), info)); err != nil {
			return err
		}
	}
	return nil
}

// ReadFile writes a part of a regular file.
func (w *worker) ReadFile(ctx context.Context, id sdk.VolumeID, name string, offset, length int64, wr io.Writer) error {
	v, err := w.hold(id)
	if err != nil {
		return err
	}
	defer w.release(v)
	info, err := v.tree.Lstat(name) // a link is no regular file, here as in an archive
	if err != nil {
		return fileError(ctx, v, name, err)
	}
	if !info.Mode().IsRegular() {
		return sdk.NewInvalid(sdk.ReasonPath, "volume %q: %q is not a regular file", id, name)
	}
	f, err := v.tree.OpenFile(name)
	if err != nil {
		return fileError(ctx, v, name, err)
	}
	defer f.Close()
	if length < 0 {
		length = math.MaxInt64 - offset
	}
	sink := sdk.KeepWriter(wr)
	_, err = io.Copy(sink, &contextReader{ctx, io.NewSectionReader(f, offset, length)})
	if own := sink.Err(); own != nil {
		return own
	}
	return fileError(ctx, v, name, err)
}

func (v *volume) fileInfo(name string, info fs.FileInfo) sdk.FileInfo {
	uid, gid := owner(info)
	f := sdk.FileInfo{
		Name: info.Name(), Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime(),
		UID: int64(uid), GID: int64(gid),
	}
	if info.Mode().Type() == fs.ModeSymlink {
		f.LinkTarget, _ = v.tree.Readlink(name) // empty if it was removed meanwhile
	}
	return f
}
