package stream

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/slipway-run/slipway/internal/filemode"
)

// PackError says which file could not be packed, and why.
type PackError struct {
	Path string // as the user would find it
	Err  error
}

func (e *PackError) Error() string { return fmt.Sprintf("pack %q: %v", e.Path, e.Err) }

// Unwrap gives Err.
func (e *PackError) Unwrap() error { return e.Err }

var (
	// ErrChanged is the failure of a file that was not the same at its end as at its beginning.
	ErrChanged = errors.New("changed while it was read")
	// ErrSpecialFile is the failure of a socket, a named pipe or a device, which an archive cannot take along.
	ErrSpecialFile = errors.New("is neither a file, a directory nor a symbolic link")
)

// Packer packs directories. The zero value gives everything to user and group 0: the ids of the machine that packs mean
// nothing where the archive goes, and in a container root is who can always read it.
type Packer struct {
	Owners bool // keep the numeric owners
}

// PackDir packs with the zero [Packer].
func PackDir(ctx context.Context, dir string, w io.Writer) error { return Packer{}.Pack(ctx, dir, w) }

// Pack writes a directory as a tar archive in PAX format: what lies below it, in the order of names, without an entry for dir
// itself, whose mode and time belong to whoever unpacks. Modes with setuid, setgid and sticky bits, symbolic links as they
// are, hard links among what is packed, empty directories and modification times to the nanosecond are kept; names may
// be any bytes. If dir is a file, it is the only entry, under its own name. A symbolic link is followed as dir and nowhere else.
//
// Nothing is read before its turn comes and w takes it. After an error the archive lacks its end, so that nobody takes it for
// whole. The error is a *PackError, or what w or ctx gave, unchanged. Sockets, named pipes and devices are [ErrSpecialFile].
func (k Packer) Pack(ctx context.Context, dir string, w io.Writer) error {
	info, err := os.Stat(dir)
	if err != nil {
		return &PackError{Path: dir, Err: bare(err)}
	}
	if info.IsDir() {
		return k.pack(ctx, dir, "", "", w)
	}
	file, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return &PackError{Path: dir, Err: bare(err)}
	}
	return k.pack(ctx, filepath.Dir(file), filepath.Base(file), filepath.Base(dir), w)
}

// pack packs one file of base under another name, or all of base if file is empty.
func (k Packer) pack(ctx context.Context, base, file, as string, w io.Writer) error {
	root, err := os.OpenRoot(base)
	if err != nil {
		return &PackError{Path: base, Err: bare(err)}
	}
	defer root.Close()

	out := &keepError{w: w}
	p := packing{ctx: ctx, base: base, root: root, out: out, tar: tar.NewWriter(out), links: make(map[inode]string), owners: k.Owners}
	if file == "" {
		err = p.dir(".")
	} else {
		err = p.entry(file, as)
	}
	if err != nil {
		return err
	}
	if err := p.tar.Close(); err != nil {
		return p.failed(base, err)
	}
	return nil
}

// packing is one archive being written.
type packing struct {
	ctx    context.Context
	base   string
	root   *os.Root
	out    *keepError
	tar    *tar.Writer
	links  map[inode]string // first names of files that have more than one
	owners bool
	buf    []byte
}

// dir packs what is in a directory, but not itself.
func (p *packing) dir(name string) error {
	names, err := p.names(name)
	if err != nil {
		return p.failed(name, err)
	}
	for _, n := range names {
		child := path.Join(name, n)
		if err := p.entry(child, child); err != nil {
			return err
		}
	}
	return nil
}

func (p *packing) names(dir string) ([]string, error) {
	d, err := p.root.OpenFile(dir, os.O_RDONLY|openDir, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// entry packs what has that name, and what is below it.
func (p *packing) entry(name, as string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	info, err := p.root.Lstat(name)
	if err != nil {
		return p.failed(name, err)
	}
	h := &tar.Header{Name: as, Mode: tarMode(info.Mode()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	id, uid, gid, links := inodeOf(info)
	if p.owners {
		h.Uid, h.Gid = uid, gid
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, as+"/"
		if err := p.header(name, h); err != nil {
			return err
		}
		return p.dir(name)
	case fs.ModeSymlink:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = p.root.Readlink(name); err != nil {
			return p.failed(name, err)
		}
	case 0:
		h.Typeflag = tar.TypeReg
	default:
		return p.failed(name, ErrSpecialFile)
	}
	if links > 1 {
		if first, ok := p.links[id]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, first
			return p.header(name, h)
		}
		p.links[id] = as
	}
	if h.Typeflag == tar.TypeReg {
		return p.file(name, info, h)
	}
	return p.header(name, h)
}

// file packs a regular file, which must stay as long as it was.
func (p *packing) file(name string, info fs.FileInfo, h *tar.Header) error {
	f, err := p.root.OpenFile(name, os.O_RDONLY|openFile, 0)
	if err != nil {
		return p.failed(name, err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return p.failed(name, err)
	}
	if !os.SameFile(info, opened) {
		return p.failed(name, ErrChanged)
	}
	h.Size, h.ModTime = opened.Size(), opened.ModTime()
	if err := p.header(name, h); err != nil {
		return err
	}
	if p.buf == nil {
		p.buf = make([]byte, 128<<10)
	}
	for left := h.Size; ; {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(p.buf[:min(int64(len(p.buf)), left+1)]) // one more than there should be
		if int64(n) > left || errors.Is(err, io.EOF) && left > int64(n) {
			return p.failed(name, ErrChanged)
		}
		if _, err := p.tar.Write(p.buf[:n]); err != nil {
			return p.failed(name, err)
		}
		left -= int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return p.failed(name, err)
		}
	}
}

func (p *packing) header(name string, h *tar.Header) error {
	if err := p.tar.WriteHeader(h); err != nil {
		return p.failed(name, err)
	}
	return nil
}

// failed names the file, unless it was the writer that failed.
func (p *packing) failed(name string, err error) error {
	if p.out.err != nil {
		return p.out.err
	}
	return &PackError{Path: filepath.Join(p.base, filepath.FromSlash(name)), Err: bare(err)}
}

// bare takes the path off an error that will be shown with one.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// keepError remembers a writer's error, to tell it from those of the archive's format.
type keepError struct {
	ctx context.Context // nil: it has no end; what is a hole in an archive is read from nowhere that would end with it
	w   io.Writer
	err error
}

func (k *keepError) Write(b []byte) (int, error) {
	if k.ctx != nil && k.ctx.Err() != nil {
		k.err = k.ctx.Err()
		return 0, k.err
	}
	n, err := k.w.Write(b)
	if err != nil {
		k.err = err
	}
	return n, err
}

func tarMode(m fs.FileMode) int64 { return int64(filemode.Bits(m)) }
