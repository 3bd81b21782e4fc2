package stream

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/internal/filemode"
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

// What an archive may unpack to where an [Unpacker] does not say so: more than anybody means to have on one machine, and less than
// a few bytes of an archive can ask for.
const (
	DefaultMaxBytes   = 1 << 40
	DefaultMaxEntries = 20_000_000
)

// Unpacker unpacks archives. The zero value leaves everything with the user who unpacks and drops setuid and setgid bits:
// what comes out of a container is not trusted to run as somebody else.
type Unpacker struct {
	SetID  bool // keep setuid and setgid bits
	Owners bool // give things to their numeric owners; only root can
	// MaxBytes is of all files together, holes included, and MaxEntries of whatever there is in the archive. Zero: [DefaultMaxBytes] and [DefaultMaxEntries].
	// More is Invalid with sdk.ReasonTooLarge.
	MaxBytes   int64
	MaxEntries int64
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
// Blocks of zeros become holes where the file system has such. It takes no more memory for a large archive than for a small one, and looks at ctx
// all the time. An archive without its end is an error. After any error, what is in dir is undefined; the error is an *UnpackError, or what r or
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
	p := unpacking{Unpacker: u, in: in, tar: tar.NewReader(in), root: root}
	p.MaxBytes, p.MaxEntries = cmp.Or(u.MaxBytes, DefaultMaxBytes), cmp.Or(u.MaxEntries, DefaultMaxEntries)
	for entries := int64(0); ; entries++ {
		if entries > p.MaxEntries {
			return p.failed("", sdk.NewInvalid(sdk.ReasonTooLarge, "the archive has more than %d entries", p.MaxEntries))
		}
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
	if name, err := p.leave("."); err != nil {
		return p.failed(name, err)
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

// maxDepth is how many directories may be in each other. Other programs stop before: Linux takes paths of 4 KiB.
const maxDepth = 2000

// unpacking is one archive being read.
type unpacking struct {
	Unpacker
	in   *keepReadError
	tar  *tar.Reader
	root *os.Root
	open []entered // those whose content is being unpacked, each in the one before it
	took int64     // bytes of files
	buf  []byte
}

// entered is a directory that can be written into, and gets its mode and time once nothing in it changes any more.
type entered struct {
	name string
	then *tar.Header // what it gets; nil: it is as it shall be
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
	if left, err := p.enter(path.Dir(name)); err != nil {
		if left != "" {
			return fmt.Errorf("directory %q: %w", left, err)
		}
		return err
	}
	if err := p.clear(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := p.root.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) { // of several entries of one directory the last counts
			err = p.root.Chmod(name, 0o700)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		p.open = append(p.open, entered{name, h})
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
		if err := p.file(name, h.Size); err != nil {
			return err
		}
		return p.finish(name, h)
	}
	return damaged("entries of type %q (devices, named pipes) are not taken", h.Typeflag)
}

// enter makes a directory the innermost one that is open: those that it is not in are left. One that was left before gets back what it had then. The name is that of
// the directory at which it failed, empty if that is no other than the one to be entered.
func (p *unpacking) enter(dir string) (failed string, err error) {
	if failed, err := p.leave(dir); err != nil || dir == "." {
		return failed, err
	}
	at := "."
	if n := len(p.open); n > 0 {
		at = p.open[n-1].name
	}
	if at == dir {
		return "", nil
	}
	if strings.Count(dir, "/") >= maxDepth { // each directory is entered from the root on
		return "", damaged("it is more than %d directories deep", maxDepth)
	}
	missing := strings.Split(strings.TrimPrefix(dir, at+"/"), "/")
	for _, part := range missing {
		if err := p.in.ctx.Err(); err != nil {
			p.in.err = err
			return "", err
		}
		at = path.Join(at, part)
		d := entered{name: at}
		err := p.root.Mkdir(at, 0o777)
		if errors.Is(err, fs.ErrExist) {
			d.then, err = p.reopen(at)
		}
		if err != nil {
			return "", err
		}
		p.open = append(p.open, d)
	}
	return "", nil
}

// reopen makes it possible to write into a directory that was left, or that a link leads to, and gives what it shall have after that.
func (p *unpacking) reopen(name string) (*tar.Header, error) {
	info, err := p.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	}
	h := &tar.Header{Name: name, Mode: tarMode(info.Mode()), ModTime: info.ModTime(), AccessTime: info.ModTime(), Uid: -1, Gid: -1}
	if info.Mode()&0o700 == 0o700 {
		return h, nil
	}
	return h, p.root.Chmod(name, info.Mode()|0o700)
}

// leave gives the directories that are open, but for those that dir is in or is, what they shall have. The name is that of the one at which it failed.
func (p *unpacking) leave(dir string) (failed string, err error) {
	for n := len(p.open); n > 0; n-- {
		d := p.open[n-1]
		if dir == d.name || strings.HasPrefix(dir, d.name+"/") {
			return "", nil
		}
		p.open = p.open[:n-1]
		if d.then == nil {
			continue
		}
		if err := p.finish(d.name, d.then); err != nil {
			return d.name, err
		}
	}
	return "", nil
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

func (p *unpacking) file(name string, size int64) error {
	if size > p.MaxBytes-p.took {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "the archive has more than %d bytes of files", p.MaxBytes)
	}
	p.took += size
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

// content writes what the archive has of a file.
func (p *unpacking) content(f *os.File) error {
	if p.buf == nil {
		p.buf = make([]byte, len(zeros))
	}
	for at, hole := int64(0), false; ; {
		if err := p.in.ctx.Err(); err != nil { // what is a hole is not read from anywhere
			p.in.err = err
			return err
		}
		n, err := readBlock(p.tar, p.buf)
		switch {
		case n == 0:
		case n == len(zeros) && bytes.Equal(p.buf, zeros[:]):
			hole = true
		default:
			if _, err := f.WriteAt(p.buf[:n], at); err != nil {
				return err
			}
			hole = false
		}
		at += int64(n)
		if errors.Is(err, io.EOF) {
			if hole {
				return f.Truncate(at)
			}
			return nil
		}
		if err != nil {
			return broken(err)
		}
	}
}

// readBlock is io.ReadFull that tells the reader's own error.
func readBlock(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// zeros is as much as is written, or left out, at a time.
var zeros [128 << 10]byte

// finish gives a file or directory its owner, mode and time, in the order in which none undoes another.
func (p *unpacking) finish(name string, h *tar.Header) error {
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
	if !p.Owners || h.Uid < 0 {
		return nil
	}
	return p.root.Lchown(name, h.Uid, h.Gid)
}

func (p *unpacking) mode(h *tar.Header) fs.FileMode {
	mode := filemode.FromPOSIX(uint32(h.Mode & 0o7777))
	if !p.SetID {
		mode &^= fs.ModeSetuid | fs.ModeSetgid
	}
	return mode
}

// failed names the entry, unless it was the reader that failed.
func (p *unpacking) failed(entry string, err error) error {
	if p.in.err != nil {
		return p.in.err
	}
	if bad := (*fs.PathError)(nil); errors.As(err, &bad) && !errors.As(bad.Err, new(syscall.Errno)) { // what os.Root does not do itself is no error of the system's
		err = damaged("%v", err)
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
