package wasi

import (
	"io/fs"
	"os"
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// maxFiles is how many files a program has open at once.
const maxFiles = 4096

// files is a namespace as wazero wants a file system. Only the goroutine that runs the program uses it. Paths come relative to the
// root, and without "..": what is left of resolving them, symlinks above all, is the namespace's.
type files struct {
	experimental.UnimplementedFS
	ns    *tree.Namespace
	umask fs.FileMode
	open  map[*file]struct{}
}

func newFiles(ns *tree.Namespace, umask fs.FileMode) *files {
	return &files{ns: ns, umask: umask, open: make(map[*file]struct{})}
}

// close closes what the program has left open.
func (f *files) close() {
	for left := range f.open {
		left.Close()
	}
}

// OpenFile opens a file. Permissions come from the umask alone, for WASI has none.
func (f *files) OpenFile(path string, flag experimental.Oflag, _ fs.FileMode) (experimental.File, experimental.Errno) {
	if len(f.open) >= maxFiles {
		return nil, experimental.EIO // there is no EMFILE
	}
	if flag&experimental.O_NOFOLLOW != 0 {
		if info, err := f.ns.Lstat("/", path); err == nil && info.Mode().Type() == fs.ModeSymlink {
			return nil, experimental.ELOOP
		}
	}
	opened, err := f.ns.Open("/", path, openFlag(flag), 0o666&^f.umask)
	if err != nil {
		return nil, errnoOf(err)
	}
	o := &file{files: f, f: opened, seeker: seeker[int64]{opened}, append: flag&experimental.O_APPEND != 0}
	f.open[o] = struct{}{}
	return o, 0
}

func openFlag(flag experimental.Oflag) int {
	to := os.O_RDONLY
	switch {
	case flag&experimental.O_RDWR != 0:
		to = os.O_RDWR
	case flag&experimental.O_WRONLY != 0:
		to = os.O_WRONLY
	}
	for _, f := range []struct {
		from experimental.Oflag
		to   int
	}{
		{experimental.O_APPEND, os.O_APPEND}, {experimental.O_CREAT, os.O_CREATE}, {experimental.O_EXCL, os.O_EXCL}, {experimental.O_TRUNC, os.O_TRUNC},
	} {
		if flag&f.from != 0 {
			to |= f.to
		}
	}
	return to
}

func (f *files) Lstat(path string) (sys.Stat_t, experimental.Errno) {
	return statOf(f.ns.Lstat("/", path))
}

func (f *files) Stat(path string) (sys.Stat_t, experimental.Errno) {
	return statOf(f.ns.Stat("/", path))
}

func (f *files) Mkdir(path string, _ fs.FileMode) experimental.Errno {
	return errnoOf(f.ns.Mkdir("/", path, 0o777&^f.umask))
}

func (f *files) Rename(from, to string) experimental.Errno {
	return errnoOf(f.ns.Rename("/", from, to))
}

func (f *files) Rmdir(path string) experimental.Errno {
	if info, err := f.ns.Lstat("/", path); err == nil && !info.IsDir() {
		return experimental.ENOTDIR
	}
	return errnoOf(f.ns.Remove("/", path))
}

func (f *files) Unlink(path string) experimental.Errno {
	if info, err := f.ns.Lstat("/", path); err == nil && info.IsDir() {
		return experimental.EISDIR
	}
	return errnoOf(f.ns.Remove("/", path))
}

func (f *files) Link(old, name string) experimental.Errno {
	return errnoOf(f.ns.Link("/", old, name))
}

func (f *files) Symlink(target, name string) experimental.Errno {
	return errnoOf(f.ns.Symlink("/", target, name))
}

func (f *files) Readlink(path string) (string, experimental.Errno) {
	target, err := f.ns.Readlink("/", path)
	return target, errnoOf(err)
}

func (f *files) Chmod(path string, perm fs.FileMode) experimental.Errno {
	return errnoOf(f.ns.Chmod("/", path, perm))
}

func (f *files) Utimens(path string, _, mtime int64) experimental.Errno {
	if mtime == experimental.UTIME_OMIT {
		_, err := f.ns.Stat("/", path)
		return errnoOf(err)
	}
	return errnoOf(f.ns.Chtimes("/", path, time.Unix(0, mtime)))
}

func statOf(info fs.FileInfo, err error) (sys.Stat_t, experimental.Errno) {
	if err != nil {
		return sys.Stat_t{}, errnoOf(err)
	}
	mtime := info.ModTime().UnixNano()
	st := sys.Stat_t{Mode: info.Mode(), Size: info.Size(), Nlink: 1, Atim: mtime, Mtim: mtime, Ctim: mtime}
	if n, ok := info.(interface {
		Node() (dev, ino uint64, links uint32)
	}); ok {
		var links uint32
		st.Dev, st.Ino, links = n.Node()
		st.Nlink = uint64(links)
	}
	return st, 0
}
