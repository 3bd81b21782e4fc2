package volumetar

import (
	"context"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/filemode"
	"github.com/slipway-run/slipway/sdk"
)

// Stat describes what is at a path, as [sdk.FileReader.StatFile] does.
func (r *Root) Stat(ctx context.Context, name string) (sdk.FileInfo, error) {
	var info sdk.FileInfo
	err := r.find(ctx, name, func(_ *tree, parent int, last string) (err error) {
		info, err = stat(parent, last)
		return err
	})
	return info, err
}

// List emits what is in a directory, as [sdk.FileReader.ListFiles] does. What is removed meanwhile may be missing. An error of emit comes back
// unchanged.
func (r *Root) List(ctx context.Context, dir string, emit func(sdk.FileInfo) error) error {
	var emitErr error
	err := r.find(ctx, dir, func(_ *tree, parent int, last string) error {
		fd, err := openat(parent, last, readDir)
		if err == unix.ELOOP {
			err = unix.ENOTDIR // a link at the end is no directory
		}
		if err != nil {
			return err
		}
		d := os.NewFile(uintptr(fd), dir)
		defer d.Close()
		names, err := d.Readdirnames(-1)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := stat(fd, name)
			if err == unix.ENOENT {
				continue
			}
			if err != nil {
				return err
			}
			if emitErr = emit(info); emitErr != nil {
				return emitErr
			}
		}
		return nil
	})
	if emitErr != nil {
		return emitErr
	}
	return err
}

// ReadFile writes the bytes of a regular file, as [sdk.FileReader.ReadFile] does. A symbolic link at the end of the path is no regular file. An
// error of w comes back unchanged.
func (r *Root) ReadFile(ctx context.Context, name string, offset, length int64, w io.Writer) error {
	if offset < 0 {
		return sdk.NewInvalid(sdk.ReasonSpec, "file %q: offset %d is negative", short(name), offset)
	}
	if length < 0 || length > math.MaxInt64-offset {
		length = math.MaxInt64 - offset
	}
	out := &sink{ctx: ctx, w: w}
	err := r.find(ctx, name, func(t *tree, parent int, last string) error {
		place, err := openat(parent, last, openPath)
		if err != nil {
			return err
		}
		defer unix.Close(place)
		var st unix.Stat_t
		if err := unix.Fstat(place, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return invalidPath("%q is not a regular file", short(name))
		}
		fd, err := t.reopen(place, parent, last, unix.O_RDONLY)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		_, err = io.CopyBuffer(out, struct{ io.Reader }{io.NewSectionReader(f, offset, length)}, make([]byte, bufSize))
		return err
	})
	if out.err != nil {
		return out.err
	}
	return err
}

// find calls do with the directory that holds the last name of a path.
func (r *Root) find(ctx context.Context, name string, do func(t *tree, parent int, last string) error) error {
	names, err := below(name)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := r.hold()
	if err != nil {
		return err
	}
	defer t.close()
	parent, last, err := t.locate(names)
	if err != nil {
		return readError(name, err)
	}
	defer unix.Close(parent)
	err = do(t, parent, last)
	if ctxErr := ctx.Err(); ctxErr != nil && err == ctxErr {
		return ctxErr
	}
	return readError(name, err)
}

func stat(parent int, name string) (sdk.FileInfo, error) {
	fd, err := openat(parent, name, openPath)
	if err != nil {
		return sdk.FileInfo{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return sdk.FileInfo{}, err
	}
	info := sdk.FileInfo{
		Name: path.Base(name), Mode: filemode.FromPOSIX(st.Mode), Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()),
		UID: int64(st.Uid), GID: int64(st.Gid),
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		info.LinkTarget, err = readlink(fd, "")
	}
	return info, err
}
