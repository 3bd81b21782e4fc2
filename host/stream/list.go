package stream

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// ListFiles lists what is in a directory of a raw archive, not what is below that, in the byte order of names; of anything else than a directory, that itself.
// The root is "" or ".". A name that is not there is NotFound of a file. A directory that only the names of others tell of has no time and the mode 0755.
// Of several entries of one name the last is taken, as it is by who unpacks the archive. All of the archive is read. A directory with more than
// sdk.MaxListed files is Invalid with sdk.ReasonTooLarge.
func ListFiles(ctx context.Context, src func(ctx context.Context, w io.Writer) error, name string) ([]sdk.FileInfo, error) {
	want := path.Clean(name)
	l := listing{dir: want, files: make(map[string]sdk.FileInfo), links: make(map[string]string)}
	err := through(ctx, src, func(r io.Reader) error { return l.read(r) })
	if err == nil && len(l.links) > 0 { // their targets stand before them, where nobody knew yet that somebody would ask for them
		err = through(ctx, src, l.follow)
	}
	if err != nil {
		return nil, err
	}
	if l.itself != nil {
		return []sdk.FileInfo{*l.itself}, nil
	}
	if !l.there {
		return nil, sdk.NewNotFound(sdk.KindFile, name)
	}
	var out []sdk.FileInfo
	for _, f := range l.files {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b sdk.FileInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// listing is what is found out about one directory of an archive.
type listing struct {
	dir    string // "." is the root
	there  bool
	itself *sdk.FileInfo           // dir, if that is no directory
	files  map[string]sdk.FileInfo // by name
	links  map[string]string       // names of those that are hard links, and the paths of what they are links to
}

// read goes through the archive once.
func (l *listing) read(r io.Reader) error {
	l.there = l.dir == "."
	return eachEntry(r, func(name string, h *tar.Header) error {
		if name == l.dir {
			l.there, l.itself = true, nil
			if h.Typeflag != tar.TypeDir { // whatever was below it is no more
				l.files, l.links = make(map[string]sdk.FileInfo), make(map[string]string)
				f := l.info(name, h)
				l.itself = &f
			}
			return nil
		}
		below := name
		if l.dir != "." {
			var in bool
			if below, in = strings.CutPrefix(name, l.dir+"/"); !in {
				return nil
			}
		}
		l.there = true
		child, _, deeper := strings.Cut(below, "/")
		if !deeper {
			delete(l.links, child)
			l.files[child] = l.info(name, h)
		} else if _, known := l.files[child]; !known {
			l.files[child] = sdk.FileInfo{Name: child, Mode: fs.ModeDir | 0o755}
		}
		if len(l.files) > sdk.MaxListed {
			return sdk.NewInvalid(sdk.ReasonTooLarge, "there are more than %d files in %s: read the archive", sdk.MaxListed, l.dir)
		}
		return nil
	})
}

// info describes an entry. It notes a hard link, of which only its target's entry tells the size.
func (l *listing) info(name string, h *tar.Header) sdk.FileInfo {
	f := sdk.FileInfo{Name: path.Base(name), Mode: h.FileInfo().Mode(), ModTime: h.ModTime, UID: int64(h.Uid), GID: int64(h.Gid)}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		f.Size = h.Size
	case tar.TypeSymlink:
		f.LinkTarget = h.Linkname
	case tar.TypeLink:
		l.links[f.Name] = path.Clean(h.Linkname)
	}
	return f
}

// follow goes through the archive for the sizes of hard links.
func (l *listing) follow(r io.Reader) error {
	sizes := make(map[string]int64)
	for _, target := range l.links {
		sizes[target] = 0
	}
	err := eachEntry(r, func(name string, h *tar.Header) error {
		if _, asked := sizes[name]; asked && h.Typeflag == tar.TypeReg {
			sizes[name] = h.Size
		}
		return nil
	})
	for name, target := range l.links {
		if l.itself != nil {
			l.itself.Size = sizes[target]
			continue
		}
		f := l.files[name]
		f.Size = sizes[target]
		l.files[name] = f
	}
	return err
}

// eachEntry calls f for each entry of an archive, with its clean name.
func eachEntry(r io.Reader, f func(name string, h *tar.Header) error) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) { // of the archive, not of the source, which may still find out that it was damaged
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return broken(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, err := localName(h.Name)
		if err == nil {
			err = f(name, h)
		}
		if err != nil {
			return err
		}
	}
}
