package stream

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// UnpackError says which entry of an archive could not be unpacked, and why. It is also an Invalid with sdk.ReasonArchive
// where the archive itself is at fault.
type UnpackError struct {
	Entry string // its name in the archive; empty: the archive as a whole
	Err   error
}

func (e *UnpackError) Error() string {
	if e.Entry == "" {
		return fmt.Sprintf("unpack: %v", e.Err)
	}
	return fmt.Sprintf("unpack %q: %v", e.Entry, e.Err)
}

// Unwrap gives Err.
func (e *UnpackError) Unwrap() error { return e.Err }

// Unpacker unpacks archives. The zero value leaves everything with the user who unpacks and drops setuid and setgid bits:
// what comes out of a container is not trusted to run as somebody else.
type Unpacker struct {
	SetID    bool  // keep setuid and setgid bits
	Owners   bool  // give things to their numeric owners; only root can
	MaxBytes int64 // of all files together, holes included; zero: any number; more is Invalid with sdk.ReasonTooLarge
}

// UnpackDir unpacks with the zero [Unpacker].
func UnpackDir(ctx context.Context, r io.Reader, dir string) error {
	return Unpacker{}.Unpack(ctx, r, dir)
}

// Unpack writes a tar archive into a directory that exists and is empty. It has read r to its end when it returns nil.
// Modes, symbolic links as they are, hard links, and modification times of files and directories are restored, those of
// symbolic links are not; an entry for the directory itself is passed over. Directories that the archive only implies are made.
//
// Nothing outside dir changes, whatever the archive says: names that lead out of it, also by a symbolic link, are errors, and
// so are devices and named pipes. A later entry replaces an earlier one of its name, unless exactly one of them is a directory.
//
// An archive without its end is an error. After any error, what is in dir is undefined; the error is an *UnpackError, or what r or
// ctx gave, unchanged.
func (u Unpacker) Unpack(ctx context.Context, r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &UnpackError{Err: err}
	}
	defer root.Close()
	if err := mustBeEmpty(root); err != nil {
		return &UnpackError{Err: fmt.Errorf("%q: %w", dir, err)}
	}

	in := &keepReadError{ctx: ctx, r: r}
	p := unpacking{Unpacker: u, in: in, tar: tar.NewReader(in), root: root, dirs: make(map[string]*tar.Header), left: u.MaxBytes}
	for {
		h, err := p.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return p.failed("", broken(err))
		}
		if err := p.entry(h); err != nil {
			return p.failed(h.Name, err)
		}
	}
	if in.ended {
		return &UnpackError{Err: broken(io.ErrUnexpectedEOF)}
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what tar programs pad with
		return err
	}
	// A directory gets its mode and time once nothing in it will change.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(p.dirs))) {
		h := p.dirs[name]
		if err := p.finish(h); err != nil {
			return p.failed(h.Name, err)
		}
	}
	return nil
}

func mustBeEmpty(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = ErrNotEmpty
	}
	return err
}

// unpacking is one archive being read.
type unpacking struct {
	Unpacker
	in   *keepReadError
	tar  *tar.Reader
	root *os.Root
	dirs map[string]*tar.Header // by name; of several entries the last
	left int64
	buf  []byte
}

func (p *unpacking) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // a comment, such as git writes
	}
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return damaged("it would replace the directory that is unpacked into")
		}
		return nil
	}
	if h.Typeflag == tar.TypeLink && path.Clean(h.Linkname) == name { // tar writes this for what it was told to pack twice
		_, err := p.root.Lstat(name)
		return err
	}
	if parent := path.Dir(name); parent != "." {
		if err := p.root.MkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	if err := p.clear(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := p.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		p.dirs[name] = h
		return nil
	case tar.TypeSymlink:
		if err := p.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return p.own(name, h)
	case tar.TypeLink:
		target, err := localName(h.Linkname)
		if err != nil {
			return fmt.Errorf("hard link: %w", err)
		}
		return p.root.Link(target, name)
	case tar.TypeReg, tar.TypeGNUSparse:
		if err := p.file(name); err != nil {
			return err
		}
		return p.finish(h)
	}
	return damaged("entries of type %q (devices, named pipes) are not taken", h.Typeflag)
}

// localName is a name of the archive as one below the directory.
func localName(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || strings.HasPrefix(name, "/") || !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", damaged("%q is not a path below the directory", name)
	}
	return clean, nil
}

// clear makes way for an entry.
func (p *unpacking) clear(name string, dir bool) error {
	old, err := p.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if old.IsDir() != dir {
		return damaged("the archive has both a directory and something else of that name")
	}
	if dir {
		return nil
	}
	return p.root.Remove(name)
}

func (p *unpacking) file(name string) error {
	f, err := p.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := p.content(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (p *unpacking) content(f *os.File) error {
	if p.buf == nil {
		p.buf = make([]byte, 128<<10)
	}
	for {
		n, err := p.tar.Read(p.buf)
		if p.left -= int64(n); p.left < 0 && p.MaxBytes > 0 {
			return sdk.NewInvalid(sdk.ReasonTooLarge, "the archive has more than %d bytes of files", p.MaxBytes)
		}
		if _, err := f.Write(p.buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return broken(err)
		}
	}
}

// finish gives a file or directory its owner, mode and time, in the order in which none undoes another.
func (p *unpacking) finish(h *tar.Header) error {
	name := path.Clean(h.Name)
	if err := p.own(name, h); err != nil {
		return err
	}
	if err := p.root.Chmod(name, p.mode(h)); err != nil {
		return err
	}
	accessed, far := h.AccessTime, int64(math.MaxInt64/time.Second) // what nanoseconds in 64 bits reach
	if s := h.ModTime.Unix(); s <= -far || s >= far {
		return damaged("its time is out of range")
	}
	if s := accessed.Unix(); s <= -far || s >= far { // as it is where the archive has none
		accessed = h.ModTime
	}
	return p.root.Chtimes(name, accessed, h.ModTime)
}

func (p *unpacking) own(name string, h *tar.Header) error {
	if !p.Owners {
		return nil
	}
	return p.root.Lchown(name, h.Uid, h.Gid)
}

func (p *unpacking) mode(h *tar.Header) fs.FileMode {
	mode := fs.FileMode(h.Mode & 0o777)
	if h.Mode&modeSticky != 0 {
		mode |= fs.ModeSticky
	}
	if !p.SetID {
		return mode
	}
	if h.Mode&modeSetuid != 0 {
		mode |= fs.ModeSetuid
	}
	if h.Mode&modeSetgid != 0 {
		mode |= fs.ModeSetgid
	}
	return mode
}

// failed names the entry, unless it was the reader that failed.
func (p *unpacking) failed(entry string, err error) error {
	if p.in.err != nil {
		return p.in.err
	}
	return &UnpackError{Entry: entry, Err: err}
}

// broken is an error of the archive's reader as one of ours.
func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("its end is missing")
	}
	return damaged("%v", err)
}

func damaged(format string, args ...any) error {
	return sdk.NewInvalid(sdk.ReasonArchive, "the archive is damaged or not ours: "+format, args...)
}

// keepReadError remembers how the source of an archive ended, and ends it with its context.
type keepReadError struct {
	ctx   context.Context
	r     io.Reader
	err   error
	ended bool
}

func (k *keepReadError) Read(b []byte) (int, error) {
	if err := k.ctx.Err(); err != nil {
		k.err = err
		return 0, err
	}
	n, err := k.r.Read(b)
	if n == 0 && errors.Is(err, io.EOF) {
		k.ended = true
	}
	if err != nil && !errors.Is(err, io.EOF) {
		k.err = err
	}
	return n, err
}
