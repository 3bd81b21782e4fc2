//go:build linux

package runtime

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// copyTree copies a directory as "cp -ax --reflink=auto" does: modes, owners, times, extended attributes, symbolic and hard links, holes, pipes
// and devices. Sockets and what is mounted below are left out. Nothing may change the source meanwhile. The destination must not be there.
func copyTree(ctx context.Context, from, to string) error {
	c := copier{from: from, to: to, links: make(map[inode]string)}
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		return c.one(ctx, path)
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(c.dirs) { // inner ones first: making them has changed the outer ones' times
		if err := setTimes(d.path, &d.stat); err != nil {
			return err
		}
	}
	return nil
}

type inode struct{ dev, ino uint64 }

type copier struct {
	from, to string
	dev      uint64
	links    map[inode]string // copies of files with several names
	dirs     []copied
}

type copied struct {
	path string
	stat unix.Stat_t
}

func (c *copier) one(ctx context.Context, path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	to := c.to + path[len(c.from):]
	kind := st.Mode & unix.S_IFMT
	switch {
	case path == c.from:
		c.dev = st.Dev
	case st.Dev != c.dev && kind == unix.S_IFDIR:
		return fs.SkipDir
	case st.Dev != c.dev:
		return nil
	}
	if first, ok := c.links[inode{st.Dev, st.Ino}]; ok && kind != unix.S_IFDIR {
		return os.Link(first, to)
	}
	var err error
	switch kind {
	case unix.S_IFDIR:
		err = os.Mkdir(to, 0o700)
		c.dirs = append(c.dirs, copied{to, st})
	case unix.S_IFREG:
		err = copyFile(ctx, path, to)
	case unix.S_IFLNK:
		var target string
		if target, err = os.Readlink(path); err == nil {
			err = os.Symlink(target, to)
		}
	case unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK:
		err = wrap("mknod", to, unix.Mknod(to, st.Mode, int(st.Rdev)))
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if st.Nlink > 1 && kind != unix.S_IFDIR {
		c.links[inode{st.Dev, st.Ino}] = to
	}
	if err := os.Lchown(to, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	if err := copyAttributes(path, to); err != nil {
		return err
	}
	if kind != unix.S_IFLNK {
		if err := wrap("chmod", to, unix.Chmod(to, st.Mode&0o7777)); err != nil { // after chown, which takes setuid away
			return err
		}
	}
	return setTimes(to, &st)
}

func wrap(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}

func setTimes(path string, st *unix.Stat_t) error {
	return wrap("utimensat", path, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
}

// copyFile copies a regular file's content into a new one, sharing its blocks where the file system can.
func copyFile(ctx context.Context, from, to string) (err error) {
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
			return wrap("lseek", from, err)
		}
		if err := copyRange(ctx, dst, src, begin, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func copyRange(ctx context.Context, dst, src *os.File, at, end int64) error {
	if _, err := src.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := dst.Seek(at, io.SeekStart); err != nil {
		return err
	}
	const piece = 64 << 20 // ctx is looked at in between
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

// copyAttributes copies extended attributes that the destination can hold.
func copyAttributes(from, to string) error {
	size, err := unix.Llistxattr(from, nil)
	if errors.Is(err, unix.ENOTSUP) || err == nil && size == 0 {
		return nil
	}
	names := make([]byte, max(size, 0))
	if err == nil {
		size, err = unix.Llistxattr(from, names)
	}
	if err != nil {
		return wrap("llistxattr", from, err)
	}
	for name := range splitZero(names[:size]) {
		size, err := unix.Lgetxattr(from, name, nil)
		value := make([]byte, max(size, 0))
		if err == nil && size > 0 {
			size, err = unix.Lgetxattr(from, name, value)
		}
		if err != nil {
			return wrap("lgetxattr "+name, from, err)
		}
		if err := unix.Lsetxattr(to, name, value[:size], 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return wrap("lsetxattr "+name, to, err)
		}
	}
	return nil
}

func splitZero(names []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for begin, i := 0, 0; i < len(names); i++ {
			if names[i] == 0 {
				if i > begin && !yield(string(names[begin:i])) {
					return
				}
				begin = i + 1
			}
		}
	}
}
