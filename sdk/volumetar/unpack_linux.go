package volumetar

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// Unpack writes a tar archive below a path of the tree, whose missing directories are made; the path passes no symbolic link. It has read
// src to its end when it returns nil; nothing is synced to disk.
//
// An entry replaces what has its name and writes through none of it: a directory is merged with one that is there, a symbolic link is replaced by
// anything, but a directory takes no file's place nor a file a directory's. Names may begin with a slash, which means nothing. An entry for
// "." gives the directory at path its mode, owner and times. Holes are kept where the archive has them; plain zeros are written.
//
// Invalid with [sdk.ReasonArchive]: the archive is damaged or without its end, leaves the tree, goes through a symbolic link, or clashes
// with what is there. Invalid with [sdk.ReasonTooLarge]: it is beyond [Options] or what a file can hold. Exhausted with [sdk.ReasonStorage]: the disk or
// a quota is full. Unsupported with [sdk.FeatureTarDevices] or [sdk.FeatureTarXattrs]: it has what cannot be kept here. Invalid with
// [sdk.ReasonPath]: path is absolute, leaves the tree or is no directory. Errors of src come back unchanged, and so does that of ctx, also
// while src is blocked: then a Read may outlive the call. All else is Internal. After any error the content below path is undefined,
// but nothing writes to it any more, and no file is left that has a part of its content.
//
// Memory grows with the number of directories in the archive, whose modes and times are set at the end; with files it does not.
func (r *Root) Unpack(ctx context.Context, path string, src io.Reader) error {
	names, err := below(path)
	if err != nil {
		return err
	}
	t, err := r.hold()
	if err != nil {
		return err
	}
	defer t.close()
	base, err := t.makeDirs(names)
	if err != nil {
		return writeError(fmt.Sprintf("path %q", short(path)), sdk.ReasonPath, err)
	}
	in := newSource(ctx, src)
	defer in.close()
	u := &unpacking{
		Options: r.options, in: in, tar: tar.NewReader(in), tree: tree{fd: base, byHand: t.byHand, proc: t.proc},
		parent: -1, dirs: make(map[string]dirMeta), buf: make([]byte, bufSize), uid: unix.Geteuid(), gid: unix.Getegid(),
	}
	defer u.close()
	err = u.entries()
	if in.err != nil {
		return in.err
	}
	return err
}

// makeDirs is dir that makes what is missing.
func (t *tree) makeDirs(names []string) (int, error) {
	fd, err := t.dir(names)
	if err != unix.ENOENT {
		return fd, err
	}
	if fd, err = dup(t.fd); err != nil {
		return -1, err
	}
	for _, name := range names {
		next, err := child(fd, name)
		if err == unix.ENOENT {
			next, err = makeDir(fd, name)
		}
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// makeDir makes a directory that no archive describes, whatever the umask is.
func makeDir(parent int, name string) (int, error) {
	const mode = 0o755
	made := unix.Mkdirat(parent, name, mode)
	if made != nil && made != unix.EEXIST {
		return -1, made
	}
	if made == unix.EEXIST { // someone was quicker
		return child(parent, name)
	}
	fd, err := openat(parent, name, readDir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, st.Mode&0o7000|mode); err != nil { // setgid comes from the parent
		return -1, err
	}
	return openat(fd, ".", openDir)
}

// unpacking is one archive being read.
type unpacking struct {
	Options
	in         *source
	tar        *tar.Reader
	tree       tree // from where to unpack
	parent     int  // the directory of the last entry, or -1
	parentPath string
	dirs       map[string]dirMeta
	entriesIn  int64
	bytesIn    int64
	buf        []byte
	uid, gid   int
}

func (u *unpacking) close() {
	u.tree.close()
	if u.parent >= 0 {
		unix.Close(u.parent)
	}
}

func (u *unpacking) entries() error {
	last := "its beginning"
	for {
		u.in.zeros = 0
		h, err := u.tar.Next()
		switch {
		case err == io.EOF && u.in.zeros >= 512: // zeros of files have been read before
			if _, err := io.Copy(io.Discard, u.in); err != nil { // what tar programs pad with
				return err
			}
			return u.finish()
		case err == io.EOF:
			return badArchive("the archive ends after %s, without an end marker", last)
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return badArchive("the archive is damaged after %s: %v", last, err)
		}
		if err := u.entry(h); err != nil {
			return writeError(fmt.Sprintf("archive entry %q", short(h.Name)), sdk.ReasonArchive, err)
		}
		last = fmt.Sprintf("entry %q", short(h.Name))
	}
}

func (u *unpacking) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // a comment, such as git writes
	}
	if u.entriesIn++; u.MaxEntries > 0 && u.entriesIn > u.MaxEntries {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "the archive has more than %d entries", u.MaxEntries)
	}
	names, err := entryNames(h.Name)
	if err != nil {
		return err
	}
	if min(h.Uid, h.Gid) < 0 || int64(max(h.Uid, h.Gid)) > math.MaxUint32-1 {
		return badArchive("archive entry %q: owner %d:%d is out of range", short(h.Name), h.Uid, h.Gid)
	}
	if h.Typeflag == tar.TypeDir {
		return u.dir(names, h)
	}
	if len(names) == 0 {
		return unix.EISDIR
	}
	parent, err := u.place(names[:len(names)-1])
	if err != nil {
		return err
	}
	name := names[len(names)-1]
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(parent, name, h)
	case tar.TypeSymlink:
		return u.symlink(parent, name, h)
	case tar.TypeLink:
		return u.link(parent, name, h)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return u.special(parent, name, h)
	}
	return badArchive("archive entry %q: type %q is not known", short(h.Name), h.Typeflag)
}

// entryNames splits a name of the archive.
func entryNames(name string) ([]string, error) {
	names, ok := inside(name)
	switch {
	case len(name) > maxName:
		return nil, unix.ENAMETOOLONG
	case strings.IndexByte(name, 0) >= 0:
		return nil, badArchive("archive entry %q: the name contains a NUL byte", short(name))
	case !ok:
		return nil, badArchive("archive entry %q: the name leaves the volume", short(name))
	}
	return names, nil
}

// place opens the directory of an entry; it stays open for the next one, which is mostly in it too.
func (u *unpacking) place(names []string) (int, error) {
	path := strings.Join(names, "/")
	if u.parent >= 0 && path == u.parentPath {
		return u.parent, nil
	}
	fd, err := u.tree.makeDirs(names)
	if err != nil {
		return -1, err
	}
	if u.parent >= 0 {
		unix.Close(u.parent)
	}
	u.parent, u.parentPath = fd, path
	return fd, nil
}

// makeWay removes what has the name of an entry that is no directory.
func makeWay(parent int, name string) error {
	err := unix.Unlinkat(parent, name, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err == unix.EPERM { // how POSIX would have it
		var st unix.Stat_t
		if unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return unix.EISDIR
		}
	}
	return err
}

// instead makes something in the place of what has its name.
func instead(parent int, name string, create func() error) error {
	err := create()
	if err != unix.EEXIST {
		return err
	}
	if err := makeWay(parent, name); err != nil {
		return err
	}
	return create()
}

func (u *unpacking) dir(names []string, h *tar.Header) error {
	fd, err := u.openDir(names)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if u.DropOwners && int(st.Uid) != u.uid && u.uid != 0 {
		return nil // somebody else's; see Options
	}
	if err := u.chown(fd, h); err != nil {
		return err
	}
	attrs := xattrs(h)
	acl, hasACL := attrs[xattrDefaultACL]
	delete(attrs, xattrDefaultACL) // what is made below would inherit it
	if err := u.setXattrs(fd, attrs, false); err != nil {
		return err
	}
	mode := uint32(h.Mode & 0o7777)
	if err := unix.Fchmod(fd, mode|0o700); err != nil { // so that entries can come into it
		return err
	}
	u.dirs[strings.Join(names, "/")] = dirMeta{ino: st.Ino, mode: mode, mtime: timespec(h), acl: acl, hasACL: hasACL}
	return nil
}

// openDir opens the directory for an entry, and makes it where it is missing or a symbolic link is in its place.
func (u *unpacking) openDir(names []string) (int, error) {
	if len(names) == 0 {
		return openat(u.tree.fd, ".", readDir)
	}
	parent, err := u.place(names[:len(names)-1])
	if err != nil {
		return -1, err
	}
	name := names[len(names)-1]
	if err = unix.Mkdirat(parent, name, 0o700); err == unix.EEXIST && isLink(parent, name) {
		if err = makeWay(parent, name); err == nil {
			err = unix.Mkdirat(parent, name, 0o700)
		}
	}
	if err != nil && err != unix.EEXIST {
		return -1, err
	}
	return openat(parent, name, readDir)
}

// dirMeta is what a directory gets once nothing in it will change.
type dirMeta struct {
	ino    uint64
	mode   uint32
	mtime  unix.Timespec
	acl    string
	hasACL bool
}

// finish gives directories what entries in them would have spoilt, the inner ones first: an outer one may become impassable.
func (u *unpacking) finish() error {
	paths := make([]string, 0, len(u.dirs))
	for path := range u.dirs {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range slices.Backward(paths) {
		if err := u.in.ctx.Err(); err != nil {
			return err
		}
		if err := u.finishDir(path, u.dirs[path]); err != nil {
			return writeError(fmt.Sprintf("archive entry %q", short(path)), sdk.ReasonArchive, err)
		}
	}
	return nil
}

func (u *unpacking) finishDir(path string, m dirMeta) error {
	names, _ := inside(path)
	found, err := u.tree.dir(names)
	if err != nil {
		return errChanged
	}
	defer unix.Close(found)
	fd, err := openat(found, ".", readDir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Ino != m.ino {
		return errChanged
	}
	if m.hasACL {
		if err := u.setXattrs(fd, map[string]string{xattrDefaultACL: m.acl}, false); err != nil {
			return err
		}
	}
	if err := setTime(fd, ".", m.mtime); err != nil {
		return err
	}
	return unix.Fchmod(fd, m.mode)
}
