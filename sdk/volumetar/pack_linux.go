package volumetar

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// Pack writes what a path names as a tar archive in PAX format, in the byte order of names. A directory gives "./" for itself, then what
// is below it; all else gives one entry with its last name.
//
// A path that is not there is NotFound of a file, and one that is absolute or leaves the tree, or a socket, Invalid with [sdk.ReasonPath], both
// before anything is written. Sockets below a directory are left out. What is removed while its directory is packed is left out; a file that
// shrinks or grows while it is packed, or a directory that is moved, is FailedPrecondition with [sdk.ReasonInUse]. Errors of w come back unchanged, and so
// does that of ctx, which is looked at between writes. All else, such as a file that this process may not read, is Internal. After any error the
// archive lacks its end.
//
// Memory grows with the names in the directories on the way to an entry, and with the files that have further names still to come.
func (r *Root) Pack(ctx context.Context, name string, w io.Writer) error {
	names, err := below(name)
	if err != nil {
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
	out := &sink{ctx: ctx, w: w}
	buffered := bufio.NewWriterSize(out, bufSize)
	p := &packing{ctx: ctx, raw: buffered, tar: tar.NewWriter(buffered), links: make(map[inode]linked), buf: make([]byte, bufSize)}
	p.top = tree{fd: -1, byHand: t.byHand, proc: t.proc}
	defer p.close()
	err = p.all(parent, last)
	if err == nil {
		err = errors.Join(p.tar.Close(), buffered.Flush())
	}
	if out.err != nil {
		return out.err
	}
	if ctxErr := ctx.Err(); ctxErr != nil && errors.Is(err, ctxErr) {
		return ctxErr
	}
	return readError(name, err)
}

// sink keeps the error of its writer as it was.
type sink struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	s.err = err
	return n, err
}

const maxHeld = 64 // directories that are kept open at once

// packing is one archive being written.
type packing struct {
	ctx   context.Context
	raw   *bufio.Writer // below tar, for what that cannot write
	tar   *tar.Writer
	top   tree // the directory that is packed; fd -1 if it is none
	links map[inode]linked
	buf   []byte
}

type inode struct{ dev, ino uint64 }

// linked is a file that has been packed under one of its names.
type linked struct {
	name string
	left uint64 // further names
}

func (p *packing) close() {
	if p.top.fd >= 0 {
		p.top.close()
	}
}

func (p *packing) all(parent int, last string) error {
	fd, st, err := p.find(parent, last)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		unix.Close(fd)
		return invalidPath("%q is a socket, which no archive can take along", last)
	case unix.S_IFDIR:
		p.top.fd = fd
		return p.dir(fd, "", 0)
	}
	defer unix.Close(fd)
	return p.leaf(parent, last, last, fd, &st)
}

// find opens what has the name, as nothing but a place.
func (p *packing) find(parent int, name string) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openat(parent, name, openPath)
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// dir packs the directory at fd, which stays the caller's, and what is below it. The name is empty or ends in a slash.
func (p *packing) dir(fd int, name string, depth int) error {
	if len(name) > maxName {
		return p.failed(name, unix.ENAMETOOLONG)
	}
	read, err := openat(fd, ".", readDir)
	if err != nil {
		return p.failed(name, err)
	}
	d := os.NewFile(uintptr(read), name)
	defer func() { d.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(read, &st); err != nil {
		return p.failed(name, err)
	}
	h := header(&st)
	h.Typeflag, h.Name = tar.TypeDir, name
	if name == "" {
		h.Name = "./"
	}
	if err := p.top.getXattrs(h, read, false); err != nil {
		return p.failed(name, err)
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return p.failed(name, err)
	}
	children, err := d.Readdirnames(-1)
	if err != nil {
		return p.failed(name, err)
	}
	slices.Sort(children)
	for _, c := range children {
		deeper, err := p.child(read, name, c, depth)
		if err != nil {
			return err
		}
		if deeper < 0 {
			continue
		}
		if depth < maxHeld {
			err = p.dir(deeper, name+c+"/", depth+1)
			unix.Close(deeper)
		} else {
			d.Close() // a tree may be deeper than we can have files open
			err = p.dir(deeper, name+c+"/", depth+1)
			unix.Close(deeper)
			if err == nil {
				read, err = p.again(name, &st)
				d = os.NewFile(uintptr(read), name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// again opens a directory that was closed for its children's sake.
func (p *packing) again(name string, was *unix.Stat_t) (int, error) {
	names, _ := inside(name)
	fd, err := p.top.dir(names)
	if err != nil {
		return -1, p.failed(name, errChanged)
	}
	defer unix.Close(fd)
	read, err := openat(fd, ".", readDir)
	if err != nil {
		return -1, p.failed(name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(read, &st); err != nil || !same(&st, was) {
		unix.Close(read)
		return -1, p.failed(name, errChanged)
	}
	return read, nil
}

// child packs one name of a directory, unless it is a directory itself: that comes back open, all else as -1.
func (p *packing) child(parent int, dir, name string, depth int) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return -1, err
	}
	as := dir + name
	fd, st, err := p.find(parent, name)
	if err == unix.ENOENT {
		return -1, nil
	}
	if err != nil {
		return -1, p.failed(as, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fd, nil
	}
	defer unix.Close(fd)
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		return -1, nil
	}
	if len(as) > maxName {
		return -1, p.failed(as, unix.ENAMETOOLONG)
	}
	return -1, p.leaf(parent, name, as, fd, &st)
}

// leaf packs what is no directory.
func (p *packing) leaf(parent int, name, as string, fd int, st *unix.Stat_t) error {
	h := header(st)
	h.Name = as
	id := inode{uint64(st.Dev), st.Ino}
	if first, ok := p.links[id]; ok {
		if first.left--; first.left == 0 {
			delete(p.links, id)
		} else {
			p.links[id] = first
		}
		h.Typeflag, h.Linkname = tar.TypeLink, first.name
		return p.failed(as, p.tar.WriteHeader(h))
	}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		err = p.file(parent, name, fd, h, st)
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
		h.Linkname, err = readlink(fd, "")
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	case unix.S_IFCHR, unix.S_IFBLK:
		h.Typeflag = tar.TypeChar
		if st.Mode&unix.S_IFMT == unix.S_IFBLK {
			h.Typeflag = tar.TypeBlock
		}
		h.Devmajor, h.Devminor = int64(unix.Major(uint64(st.Rdev))), int64(unix.Minor(uint64(st.Rdev)))
	default:
		err = fmt.Errorf("it is of no known type (mode %o)", st.Mode)
	}
	if err == nil && h.Typeflag != tar.TypeReg {
		if err = p.top.getXattrs(h, fd, true); err == nil {
			err = p.tar.WriteHeader(h)
		}
	}
	if err != nil {
		return p.failed(as, err)
	}
	if st.Nlink > 1 {
		p.links[id] = linked{as, uint64(st.Nlink) - 1}
	}
	return nil
}

// file packs a regular file, which must stay as long as it was.
func (p *packing) file(parent int, name string, place int, h *tar.Header, st *unix.Stat_t) error {
	h.Typeflag = tar.TypeReg
	fd, err := p.top.reopen(place, parent, name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, st); err != nil {
		return err
	}
	h.Size, h.ModTime = st.Size, time.Unix(st.Mtim.Unix())
	if err := p.top.getXattrs(h, fd, false); err != nil {
		return err
	}
	parts, holes, err := dataOf(fd, st)
	if err != nil {
		return err
	}
	if holes {
		err = p.sparse(h, parts, fd)
	} else if err = p.tar.WriteHeader(h); err == nil {
		err = p.copy(p.tar, fd, extent{0, h.Size})
	}
	if err != nil {
		return err
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return err
	}
	if after.Size != st.Size {
		return errChanged
	}
	return nil
}

// copy writes a part of a file.
func (p *packing) copy(w io.Writer, fd int, e extent) error {
	for at := e.from; at < e.to; {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n, err := again(func() (int, error) { return unix.Pread(fd, p.buf[:min(int64(len(p.buf)), e.to-at)], at) })
		if err != nil {
			return err
		}
		if n == 0 {
			return errChanged
		}
		if _, err := w.Write(p.buf[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func header(st *unix.Stat_t) *tar.Header {
	return &tar.Header{
		Format: tar.FormatPAX, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid), ModTime: time.Unix(st.Mtim.Unix()),
	}
}

// failed says what the error is about.
func (p *packing) failed(name string, err error) error {
	_, contract := errors.AsType[*sdk.Error](err)
	if err == nil || contract || errors.Is(err, p.ctx.Err()) && p.ctx.Err() != nil {
		return err
	}
	name = path.Clean(strings.TrimSuffix(name, "/"))
	if errors.Is(err, errChanged) {
		return readError(name, err)
	}
	return sdk.NewInternal(err, "packing %q: %v", short(name), err)
}
