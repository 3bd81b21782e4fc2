package tree

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// File is an open file or directory. It is safe for concurrent use, stays
// readable and writable after its name was removed, and must be closed. It
// buffers nothing.
type File struct {
	ns   *Namespace
	name string
	at   place
	flag int

	mu     sync.Mutex
	off    int64
	list   []fs.DirEntry // what ReadDir has still to return
	listed bool
	closed bool
}

var (
	_ io.ReadWriteSeeker = (*File)(nil)
	_ io.ReaderAt        = (*File)(nil)
	_ io.WriterAt        = (*File)(nil)
	_ fs.ReadDirFile     = (*File)(nil)
)

// Open opens a path, through symlinks, with the flags of package os: one of
// O_RDONLY, O_WRONLY and O_RDWR, and any of O_APPEND, O_CREATE, O_EXCL and
// O_TRUNC. A file that is created has the permissions perm; there is no umask.
func (n *Namespace) Open(cwd, name string, flag int, perm fs.FileMode) (*File, error) {
	for range maxHops {
		f, err := n.open(cwd, name, flag, perm)
		if err == errRace {
			continue
		}
		if err != nil {
			return nil, pathError("open", name, err)
		}
		return f, nil
	}
	return nil, pathError("open", name, syscall.ELOOP)
}

// errRace says that what was found has gone or changed meanwhile: look again.
const errRace = syscall.EAGAIN

func (n *Namespace) open(cwd, name string, flag int, perm fs.FileMode) (*File, error) {
	create := flag&os.O_CREATE != 0
	exclusive := create && flag&os.O_EXCL != 0
	how := followAll
	if exclusive {
		how = followNever
	}
	s := newSearch(n, cwd, name)
	s.file = create
	err := s.run(how)
	switch {
	case create && s.missing(err):
		err = s.create(perm, exclusive)
	case err == nil:
		err = s.check(flag, exclusive)
	}
	if err != nil {
		return nil, err
	}
	f := &File{ns: n, name: name, at: s.node, flag: flag}
	t := f.tree()
	if t == nil {
		return f, nil
	}
	if err := t.pin(f.at.ino()); err != nil {
		if err == syscall.ENOENT && create {
			return nil, errRace
		}
		return nil, err
	}
	if flag&os.O_TRUNC != 0 {
		if err := t.truncate(f.at.ino(), 0); err != nil {
			t.unpin(f.at.ino())
			return nil, err
		}
	}
	return f, nil
}

// create makes the missing file.
func (s *search) create(perm fs.FileMode, exclusive bool) error {
	t, err := s.dir().tree()
	if err != nil {
		return err
	}
	a, err := t.create(s.dir().ino(), s.name, attr{mode: perm & kept})
	if err == syscall.EEXIST && !exclusive {
		return errRace
	}
	a.dev = s.dir().mnt.dev
	s.node = place{mnt: s.dir().mnt, name: s.name, attr: a}
	return err
}

// check says whether what exists may be opened so.
func (s *search) check(flag int, exclusive bool) error {
	writes := flag&(os.O_WRONLY|os.O_RDWR|os.O_TRUNC) != 0
	switch {
	case exclusive:
		return syscall.EEXIST
	case s.node.attr.mode.IsDir() && (writes || flag&os.O_CREATE != 0):
		return syscall.EISDIR
	case !writes || s.node.mnt == nil:
		return nil
	}
	t, err := s.node.tree()
	if err != nil {
		return err
	}
	if t.Sealed() {
		return syscall.EROFS
	}
	return nil
}

// tree is where the file is, nil for what exists in none.
func (f *File) tree() *Tree {
	if f.at.mnt == nil {
		return nil
	}
	return f.at.mnt.tree
}

func (f *File) null() bool { return f.at.mnt == nil && !f.at.attr.mode.IsDir() }

// Name is the path that the file was opened by.
func (f *File) Name() string { return f.name }

// usable says whether the file may be read, or written, with f.mu held.
func (f *File) usable(write bool) error {
	access := f.flag & (os.O_WRONLY | os.O_RDWR)
	switch {
	case f.closed:
		return fs.ErrClosed
	case write && access == os.O_RDONLY, !write && access == os.O_WRONLY:
		return syscall.EBADF
	case f.at.attr.mode.IsDir():
		return syscall.EISDIR
	}
	return nil
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.read(p, f.off)
	f.off += int64(n)
	return n, err
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	err := f.usable(false)
	f.mu.Unlock()
	if err == nil && off < 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, pathError("read", f.name, err)
	}
	n, err := f.fetch(p, off) // without f.mu: readers go side by side
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *File) read(p []byte, off int64) (int, error) {
	if err := f.usable(false); err != nil {
		return 0, pathError("read", f.name, err)
	}
	n, err := f.fetch(p, off)
	if err == nil && n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

func (f *File) fetch(p []byte, off int64) (int, error) {
	if f.null() {
		return 0, nil
	}
	n, err := f.tree().read(f.at.ino(), p, off)
	return n, pathError("read", f.name, err)
}

// Write implements io.Writer. With O_APPEND it writes at the end, atomically.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, end, err := f.write(p, f.off)
	f.off = end
	return n, err
}

// WriteAt implements io.WriterAt. With O_APPEND it writes at the end, as
// pwrite does on Linux.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("write", f.name, syscall.EINVAL)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _, err := f.write(p, off)
	return n, err
}

func (f *File) write(p []byte, off int64) (int, int64, error) {
	if err := f.usable(true); err != nil {
		return 0, off, pathError("write", f.name, err)
	}
	if f.null() {
		return len(p), off, nil
	}
	at := off
	if f.flag&os.O_APPEND != 0 {
		at = atEnd
	}
	n, end, err := f.tree().write(f.at.ino(), p, at)
	if n == 0 {
		end = off
	}
	return n, end, pathError("write", f.name, err)
}

// Seek implements io.Seeker. A directory can be rewound only.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, pathError("seek", f.name, fs.ErrClosed)
	}
	from := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		from = f.off
	case io.SeekEnd:
		a, err := f.stat()
		if err != nil {
			return 0, pathError("seek", f.name, err)
		}
		from = a.size
	default:
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	to := from + offset
	if f.null() {
		to = 0
	}
	if to < 0 || f.at.attr.mode.IsDir() && to != 0 {
		return 0, pathError("seek", f.name, syscall.EINVAL)
	}
	f.off, f.list, f.listed = to, nil, false
	return to, nil
}

// Truncate sets the file's size; what it grows by reads as zeros.
func (f *File) Truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.usable(true)
	if err == syscall.EBADF || err == nil && f.null() {
		err = syscall.EINVAL
	}
	if err == nil {
		err = f.tree().truncate(f.at.ino(), size)
	}
	return pathError("truncate", f.name, err)
}

// Stat describes the file as it is now.
func (f *File) Stat() (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, pathError("stat", f.name, fs.ErrClosed)
	}
	a, err := f.stat()
	if err != nil {
		return nil, pathError("stat", f.name, err)
	}
	return info{base(f.name), a}, nil
}

func (f *File) stat() (attr, error) {
	t := f.tree()
	if t == nil {
		return f.at.attr, nil
	}
	a, err := t.stat(f.at.ino())
	a.dev = f.at.mnt.dev
	return a, err
}

// ReadDir implements fs.ReadDirFile. The entries are those at the first call,
// sorted by name; Seek(0, io.SeekStart) starts afresh.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, pathError("readdir", f.name, fs.ErrClosed)
	}
	if !f.at.attr.mode.IsDir() {
		return nil, pathError("readdir", f.name, syscall.ENOTDIR)
	}
	if !f.listed {
		all, err := f.ns.list(&f.at)
		if err != nil {
			return nil, pathError("readdir", f.name, err)
		}
		f.list, f.listed = entries(all), true
	}
	if n > 0 && len(f.list) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.list) {
		n = len(f.list)
	}
	some := f.list[:n:n]
	f.list = f.list[n:]
	return some, nil
}

// Chmod is Namespace.Chmod on the open file.
func (f *File) Chmod(mode fs.FileMode) error {
	err := f.at.change(func(in *inode) { in.mode = in.mode.Type() | mode&kept })
	return pathError("chmod", f.name, err)
}

// Chtimes is Namespace.Chtimes on the open file.
func (f *File) Chtimes(mtime time.Time) error {
	return pathError("chtimes", f.name, f.at.change(func(in *inode) { in.mtime = mtime.Round(0) }))
}

// SetAppend says whether writes go to the end from now on, as O_APPEND does.
func (f *File) SetAppend(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flag &^= os.O_APPEND
	if on {
		f.flag |= os.O_APPEND
	}
}

// Close ends the use of the file. A second call fails with fs.ErrClosed.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.list = nil
	if t := f.tree(); t != nil {
		t.unpin(f.at.ino())
	}
	return nil
}
