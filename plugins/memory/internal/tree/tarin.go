package tree

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/internal/filemode"
)

var (
	// ErrArchive says that a stream is not a tar archive, is damaged, or
	// breaks off.
	ErrArchive = errors.New("damaged tar archive")

	// ErrUnsafe says that an entry would lead out of the volume by "..", or
	// through a symlink.
	ErrUnsafe = errors.New("path leads out of the volume or through a symlink")
)

// EntryError is the reason why an entry of an archive was not accepted. Err
// wraps ErrUnsafe, ErrArchive, errors.ErrUnsupported (devices, FIFOs and
// other types) or a syscall.Errno: EISDIR and ENOTDIR for a clash with what is
// there, ENOSPC, EFBIG, ENAMETOOLONG, EROFS, or ENOENT for a hard link to
// nothing.
type EntryError struct {
	Name string
	Err  error
}

func (e *EntryError) Error() string {
	name := e.Name
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	return fmt.Sprintf("archive entry %q: %v", name, e.Err)
}

func (e *EntryError) Unwrap() error { return e.Err }

// ReadTar unpacks a tar stream (v7, ustar, PAX or GNU, not compressed) below
// path, whose missing directories are made. No symlink is followed in path.
//
// An entry replaces what has its name: a directory is merged with one that is
// there, a symlink is replaced by anything, but a directory never takes a
// file's place nor a file a directory's. A file appears whole or not at all.
// Owners are taken by number, extended attributes as xattr.go says. Directories get their mtimes at the end. Names
// may be absolute, which means the same without the slash. Nothing outside
// the tree can be reached, yet an entry that tries is refused.
//
// The end marker must be there; what follows it is read and ignored. Data goes
// piece by piece straight into the tree, charged as it comes, sparse files
// with their holes.
//
// After an error the content below path is undefined. Errors of r come back
// unchanged, as does that of ctx, which is looked at between reads; others are
// *EntryError, *fs.PathError for path itself, or wrap ErrArchive.
func (t *Tree) ReadTar(ctx context.Context, r io.Reader, path string) error {
	base, ok := inside(path)
	if !ok {
		return &fs.PathError{Op: "untar", Path: path, Err: syscall.EINVAL}
	}
	src := &source{ctx: ctx, r: r}
	in := &tarReader{tree: t, src: src, tr: tar.NewReader(src), base: base, times: make(map[uint64]time.Time)}
	t.mu.RLock()
	err := t.writable()
	t.mu.RUnlock()
	if err == nil {
		err = legal(base)
	}
	if err == nil {
		_, err = in.parent(rootIno, base)
	}
	if err != nil {
		return &fs.PathError{Op: "untar", Path: path, Err: err}
	}
	err = in.entries(src)
	if src.err != nil {
		return src.err
	}
	if err != nil {
		return err
	}
	for ino, mtime := range in.times {
		// The directory may have been removed meanwhile, by whoever shares it.
		_ = t.change(ino, func(in *inode) { in.mtime = mtime })
	}
	return nil
}

// source keeps the first error of a reader as it was, and counts the zeros at
// the end of what was read, to tell an end marker from a stream that breaks
// off.
type source struct {
	ctx   context.Context
	r     io.Reader
	err   error
	count bool
	zeros int
}

func (s *source) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	if s.count {
		i := n
		for i > 0 && p[i-1] == 0 {
			i--
		}
		if i > 0 {
			s.zeros = 0
		}
		s.zeros += n - i
	}
	return n, err
}

type tarReader struct {
	tree  *Tree
	src   *source
	tr    *tar.Reader
	base  []string
	times map[uint64]time.Time // of directories, to be set at the end
}

func (r *tarReader) entries(src *source) error {
	last := "the beginning"
	for {
		src.count, src.zeros = true, 0
		h, err := r.tr.Next()
		src.count = false
		switch {
		case err == io.EOF && src.zeros >= 512:
			_, err := io.Copy(io.Discard, src)
			return err
		case err == io.EOF:
			return fmt.Errorf("%w: it ends after %s, without an end marker", ErrArchive, last)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return fmt.Errorf("%w: after %s: %w", ErrArchive, last, err)
		}
		if err := r.entry(h); err != nil {
			return &EntryError{Name: h.Name, Err: err}
		}
		last = fmt.Sprintf("entry %.255q", h.Name)
	}
}

func (r *tarReader) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	names, err := r.names(h.Name)
	if err != nil {
		return err
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) > math.MaxUint32 || int64(h.Gid) > math.MaxUint32 {
		return fmt.Errorf("owner %d:%d is out of range: %w", h.Uid, h.Gid, syscall.EINVAL)
	}
	a := attr{mode: filemode.FromPOSIX(uint32(h.Mode & 0o7777)), uid: uint32(h.Uid), gid: uint32(h.Gid), mtime: h.ModTime.Round(0)}
	if a.xattrs, err = xattrsOf(h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return r.dir(names, a)
	}
	if len(names) == len(r.base) {
		return syscall.EISDIR
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return r.file(names, a, h.Size, isSparse(h))
	case tar.TypeSymlink:
		return r.symlink(names, a, h.Linkname)
	case tar.TypeLink:
		return r.link(names, h.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return fmt.Errorf("devices are not kept in a volume: %w", errors.ErrUnsupported)
	case tar.TypeFifo:
		return fmt.Errorf("fifos are not kept in a volume: %w", errors.ErrUnsupported)
	}
	return fmt.Errorf("type %q: %w", h.Typeflag, errors.ErrUnsupported)
}

// names is a path of the archive as names from the tree's root on.
func (r *tarReader) names(p string) ([]string, error) {
	if len(p) > maxTarName {
		return nil, syscall.ENAMETOOLONG
	}
	below, ok := inside(p)
	if !ok {
		return nil, ErrUnsafe
	}
	return append(r.base[:len(r.base):len(r.base)], below...), legal(below)
}

// legal says whether a directory may have these names.
func legal(names []string) error {
	for _, name := range names {
		if len(name) > maxName {
			return syscall.ENAMETOOLONG
		}
		if strings.IndexByte(name, 0) >= 0 {
			return syscall.EINVAL
		}
	}
	return nil
}

// parent returns the directory at names below dir, and makes what is missing.
func (r *tarReader) parent(dir uint64, names []string) (uint64, error) {
	for _, name := range names {
		a, err := r.tree.lookup(dir, name)
		if err == syscall.ENOENT {
			a, err = r.tree.create(dir, name, attr{mode: fs.ModeDir | 0o755})
			if err == syscall.EEXIST {
				err = nil // someone was quicker
			}
		}
		if err == nil {
			err = passable(a)
		}
		if err != nil {
			return 0, err
		}
		dir = a.ino
	}
	return dir, nil
}

// passable says whether an entry's path may go on below a node.
func passable(a attr) error {
	switch {
	case a.mode.IsDir():
		return nil
	case a.mode.Type() == fs.ModeSymlink:
		return ErrUnsafe
	}
	return syscall.ENOTDIR
}

func (r *tarReader) dir(names []string, a attr) error {
	a.mode |= fs.ModeDir
	ino := uint64(rootIno)
	if len(names) > 0 {
		dir, key, err := r.place(names)
		if err != nil {
			return err
		}
		if ino, err = r.tree.mergeDir(dir, key, a); err != nil {
			return err
		}
	}
	r.times[ino] = a.mtime
	if err := r.tree.setXattrs(ino, a.xattrs); err != nil {
		return err
	}
	return r.tree.change(ino, func(in *inode) { in.mode, in.uid, in.gid = a.mode, a.uid, a.gid })
}

// place returns the directory and the name in it that names end at.
func (r *tarReader) place(names []string) (dir uint64, key string, err error) {
	last := len(names) - 1
	dir, err = r.parent(rootIno, names[:last])
	return dir, names[last], err
}

func (r *tarReader) file(names []string, a attr, size int64, sparse bool) error {
	if size > maxFileSize {
		return syscall.EFBIG
	}
	dir, key, err := r.place(names)
	if err != nil {
		return err
	}
	in, err := newInode(r.tree.budget, a)
	if err != nil {
		return err
	}
	fill := r.fill
	if sparse {
		fill = r.fillSparse
	}
	if err := fill(in, size); err != nil {
		in.release(r.tree.budget)
		return err
	}
	return r.tree.replace(dir, key, in)
}

// fill reads the content of a file that is in no tree yet.
func (r *tarReader) fill(in *inode, size int64) error {
	b := r.tree.budget
	for in.size < size {
		n := int(min(chunkSize, size-in.size))
		c, err := newChunk(b, n, n)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(r.tr, c.buf); err != nil {
			c.release(b)
			return fmt.Errorf("%w: after %d of %d bytes: %w", ErrArchive, in.size, size, err)
		}
		*in.data.slot(b, uint64(in.size/chunkSize)) = c
		in.size += int64(n)
	}
	return nil
}

// fillSparse is fill, but zeros become holes. The zeros of holes do not come from the stream, so ctx is looked at here.
func (r *tarReader) fillSparse(in *inode, size int64) error {
	b := r.tree.budget
	buf, zeros := make([]byte, chunkSize), make([]byte, chunkSize)
	for in.size < size {
		if r.src.err = r.src.ctx.Err(); r.src.err != nil {
			return r.src.err
		}
		n := int(min(chunkSize, size-in.size))
		if _, err := io.ReadFull(r.tr, buf[:n]); err != nil {
			return fmt.Errorf("%w: after %d of %d bytes: %w", ErrArchive, in.size, size, err)
		}
		if data := withoutZeros(buf[:n], zeros); len(data) > 0 {
			c, err := newChunk(b, len(data), len(data))
			if err != nil {
				return err
			}
			copy(c.buf, data)
			*in.data.slot(b, uint64(in.size/chunkSize)) = c
		}
		in.size += int64(n)
	}
	return nil
}

func (r *tarReader) symlink(names []string, a attr, target string) error {
	switch {
	case target == "":
		return fmt.Errorf("symlink without a target: %w", syscall.EINVAL)
	case len(target) > maxPath:
		return syscall.ENAMETOOLONG
	case strings.IndexByte(target, 0) >= 0:
		return syscall.EINVAL
	}
	a.mode, a.target = fs.ModeSymlink|0o777, target
	dir, key, err := r.place(names)
	if err != nil {
		return err
	}
	in, err := newInode(r.tree.budget, a)
	if err != nil {
		return err
	}
	return r.tree.replace(dir, key, in)
}

func (r *tarReader) link(names []string, target string) error {
	ino, err := r.target(target)
	if err != nil {
		return fmt.Errorf("hard link to %.255q: %w", target, err)
	}
	dir, key, err := r.place(names)
	if err != nil {
		return err
	}
	return r.tree.relink(dir, key, ino)
}

// target finds what a hard link is to be a name of. A symlink is itself.
func (r *tarReader) target(name string) (uint64, error) {
	names, err := r.names(name)
	if err != nil {
		return 0, err
	}
	a := attr{ino: rootIno, mode: fs.ModeDir}
	for _, name := range names {
		if err := passable(a); err != nil {
			return 0, err
		}
		if a, err = r.tree.lookup(a.ino, name); err != nil {
			return 0, err
		}
	}
	if a.mode.IsDir() {
		return 0, syscall.EISDIR
	}
	return a.ino, nil
}
