//go:build linux

package volumedir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Copy copies a directory whole: modes, owners, times, extended attributes, symbolic and hard links, holes, pipes and devices. Blocks are shared
// where the file system can. Sockets and other file systems below are left out. The destination must not be there; after an error it is in
// parts. Nothing may change the source meanwhile.
func Copy(ctx context.Context, from, to string) error {
	c := copier{from: filepath.Clean(from), to: filepath.Clean(to), copies: make(map[inode]string)}
	err := filepath.WalkDir(c.from, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return c.copy(ctx, path)
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(c.dirs) { // inner ones first: what was made in them has changed the outer ones' times
		if err := setTimes(d.path, &d.stat); err != nil {
			return err
		}
	}
	return nil
}

type inode struct{ dev, ino uint64 }

type copier struct {
	from, to string
	dev      uint64           // of the source
	copies   map[inode]string // of files with several names
	dirs     []copied
}

type copied struct {
	path string
	stat unix.Stat_t
}

func (c *copier) copy(ctx context.Context, path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fault("lstat", path, err)
	}
	to := c.to + path[len(c.from):]
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case path == c.from:
		c.dev = st.Dev
	case st.Dev != c.dev && isDir:
		return fs.SkipDir
	case st.Dev != c.dev:
		return nil
	}
	own := inode{st.Dev, st.Ino}
	if first, ok := c.copies[own]; ok {
		return os.Link(first, to)
	}
	made, err := c.create(ctx, path, to, &st)
	if err != nil || !made {
		return err
	}
	if isDir {
		c.dirs = append(c.dirs, copied{to, st})
	} else if st.Nlink > 1 {
		c.copies[own] = to
	}
	return attributes(path, to, &st)
}

// create makes the copy of one file, without what is said about it.
func (c *copier) create(ctx context.Context, path, to string, st *unix.Stat_t) (made bool, err error) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		err = os.Mkdir(to, 0o700)
	case unix.S_IFREG:
		err = CopyFile(ctx, path, to)
	case unix.S_IFLNK:
		var target string
		if target, err = os.Readlink(path); err == nil {
			err = os.Symlink(target, to)
		}
	case unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK:
		err = fault("mknod", to, unix.Mknod(to, st.Mode, int(st.Rdev)))
	default:
		return false, nil
	}
	return true, err
}

// attributes gives a copy what is said about the original.
func attributes(path, to string, st *unix.Stat_t) error {
	if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := extended(path, to); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(to, st.Mode&0o7777); err != nil { // after chown, which takes setuid away
			return fault("chmod", to, err)
		}
	}
	return setTimes(to, st)
}

func fault(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func setTimes(path string, st *unix.Stat_t) error {
	times := []unix.Timespec{st.Atim, st.Mtim}
	return fault("utimensat", path, unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW))
}

// CopyFile copies a regular file's content, holes included, into a new one for this user alone.
func CopyFile(ctx context.Context, from, to string) (err error) {
	src, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if err := dst.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); { // one stretch of data after the other
		begin, err := unix.Seek(int(src.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // a hole up to the end
		}
		end := info.Size()
		if err == nil {
			end, err = unix.Seek(int(src.Fd()), begin, unix.SEEK_HOLE)
		}
		if err != nil {
			return fault("lseek", from, err)
		}
		if err := copyRange(ctx, dst, src, begin, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// copyRange looks at ctx between pieces.
func copyRange(ctx context.Context, dst, src *os.File, at, end int64) error {
	if _, err := src.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := dst.Seek(at, io.SeekStart); err != nil {
		return err
	}
	const piece = 64 << 20
	for at < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(dst, src, min(piece, end-at))
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// extended copies extended attributes, but for those that the destination cannot hold.
func extended(from, to string) error {
	names, err := grown(func(b []byte) (int, error) { return unix.Llistxattr(from, b) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return fault("llistxattr", from, err)
	}
	for name := range separated(string(names)) {
		value, err := grown(func(b []byte) (int, error) { return unix.Lgetxattr(from, name, b) })
		if err != nil {
			return fault("lgetxattr "+name, from, err)
		}
		if err := unix.Lsetxattr(to, name, value, 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fault("lsetxattr "+name, to, err)
		}
	}
	return nil
}

// grown gives what a call says whose answer must be asked for with room for it.
func grown(get func([]byte) (int, error)) ([]byte, error) {
	size, err := get(nil)
	if err != nil || size == 0 {
		return nil, err
	}
	b := make([]byte, size)
	size, err = get(b)
	return b[:max(size, 0)], err
}

// separated gives names that end with a NUL byte each.
func separated(names string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range strings.SplitSeq(names, "\x00") {
			if name != "" && !yield(name) {
				return
			}
		}
	}
}
