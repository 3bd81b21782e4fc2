package stream

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Checked makes a source of a raw archive fail, as Invalid with sdk.ReasonArchive, if what it writes is no whole archive, or has an entry
// that would come to lie outside of where it is unpacked. The bytes pass as they are, up to where they are wrong and some more.
func Checked(src func(ctx context.Context, w io.Writer) error) func(ctx context.Context, w io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		return through(ctx, src, func(r io.Reader) error {
			in := &passing{r: r, w: w}
			err := checkArchive(in)
			if in.err != nil { // whatever the archive's reader made of it
				return in.err
			}
			return err
		})
	}
}

func checkArchive(in *passing) error {
	t := tar.NewReader(in)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return broken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if _, err := localName(h.Name); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeLink {
			continue
		}
		if _, err := localName(h.Linkname); err != nil {
			return err
		}
	}
	if in.ended {
		return broken(io.ErrUnexpectedEOF)
	}
	_, err := io.Copy(io.Discard, in) // what tar programs pad with
	return err
}

// passing gives on what is read of it.
type passing struct {
	r     io.Reader
	w     io.Writer
	ended bool
	err   error // of either side
}

func (p *passing) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		if _, werr := p.w.Write(b[:n]); werr != nil {
			p.err = werr
			return n, werr
		}
	}
	if n == 0 && errors.Is(err, io.EOF) {
		p.ended = true
	}
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// errEnough ends a source of which the reader has what it wanted.
var errEnough = errors.New("the reader has what it wanted")

// ReadFile writes one regular file of a raw archive to w. A name that is not there is NotFound of a file, one of something else than a
// file Invalid with sdk.ReasonPath. Of several entries of one name the first is taken, and src is ended after it.
func ReadFile(ctx context.Context, src func(ctx context.Context, w io.Writer) error, name string, w io.Writer) error {
	return readFile(ctx, src, name, w, 8)
}

// readFile follows at most that many hard links.
func readFile(ctx context.Context, src func(ctx context.Context, w io.Writer) error, name string, w io.Writer, links int) error {
	want, err := localName(name)
	if err != nil {
		return sdk.NewInvalid(sdk.ReasonPath, "%q is no path within an artifact", name)
	}
	out := &keepError{ctx: ctx, w: w}
	err = through(ctx, src, func(r io.Reader) error {
		t := tar.NewReader(r)
		for {
			h, err := t.Next()
			if errors.Is(err, io.EOF) {
				return sdk.NewNotFound(sdk.KindFile, name)
			}
			if err != nil {
				return broken(err)
			}
			switch {
			case path.Clean(h.Name) != want:
				if strings.HasPrefix(path.Clean(h.Name), want+"/") {
					return notRegular(name)
				}
				continue
			case h.Typeflag == tar.TypeLink:
				to, err := localName(h.Linkname)
				if err != nil {
					return err
				}
				return &linked{to}
			case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse:
				return notRegular(name)
			}
			if h.Size > DefaultMaxBytes {
				return sdk.NewInvalid(sdk.ReasonTooLarge, "%s has more than %d bytes", name, int64(DefaultMaxBytes))
			}
			if _, err := io.Copy(out, t); err != nil {
				return cmp.Or(out.err, broken(err))
			}
			return errEnough
		}
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if l, ok := errors.AsType[*linked](err); ok && links > 0 { // to an entry before it
		return readFile(ctx, src, l.to, w, links-1)
	}
	return err
}

// linked says that a file is a hard link to another one.
type linked struct{ to string }

func (l *linked) Error() string { return "it is a hard link to " + l.to }

func notRegular(name string) error {
	return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonPath, Kind: sdk.KindFile, ID: name, Message: name + " is not a regular file"}
}

// ReadLocal is ReadFile for a directory of this machine, or a single file that stands for one with that file in it. It follows no link
// out of the directory.
func ReadLocal(dir, name string, w io.Writer) error {
	want, err := localName(name)
	if err != nil {
		return sdk.NewInvalid(sdk.ReasonPath, "%q is no path within an artifact", name)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return &PackError{Path: dir, Err: bare(err)}
	}
	if !info.IsDir() {
		if want != filepath.Base(dir) {
			return sdk.NewNotFound(sdk.KindFile, name)
		}
		dir = filepath.Dir(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &PackError{Path: dir, Err: bare(err)}
	}
	defer root.Close()
	switch info, err = root.Lstat(want); {
	case errors.Is(err, fs.ErrNotExist):
		return sdk.NewNotFound(sdk.KindFile, name)
	case err != nil:
		return &PackError{Path: filepath.Join(dir, want), Err: bare(err)}
	case !info.Mode().IsRegular():
		return notRegular(name)
	}
	f, err := root.Open(want)
	if err != nil {
		return &PackError{Path: filepath.Join(dir, want), Err: bare(err)}
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// File is a file that a program makes of bytes.
type File struct {
	Name string // relative, with slashes
	Mode fs.FileMode
	Data []byte
}

// PackFiles writes an archive of files, in the order of their names, with the directories that they are in implied and the time of packing.
func PackFiles(files []File, w io.Writer) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	now := time.Now()
	t := tar.NewWriter(w)
	for i, f := range files {
		name, err := localName(f.Name)
		if err != nil || name == "." || i > 0 && files[i-1].Name == f.Name {
			return sdk.NewInvalid(sdk.ReasonPath, "%q is no name of a file, or is there twice", f.Name)
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(f.Data)), Mode: tarMode(cmp.Or(f.Mode, 0o644)), ModTime: now}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.Data); err != nil {
			return err
		}
	}
	return t.Close()
}
