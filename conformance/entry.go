package conformance

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// Entry is a file of a tree, as an archive tells it. Zero fields have a meaning of their own: they are what a case did not
// care to say, but are compared all the same unless [Ignore] names them.
type Entry struct {
	Path     string // clean, without a slash at either end
	Type     byte   // tar's type flag; zero: a regular file
	Mode     int64  // permission bits, setuid, setgid, sticky
	UID, GID int
	ModTime  int64 // seconds since 1970
	Data     string
	Link     string // target of a link
}

// File is an entry with some bytes, mode 0644 and the time that all entries get which name none.
func File(path, data string) Entry {
	return Entry{Path: path, Type: tar.TypeReg, Mode: 0o644, ModTime: someTime, Data: data}
}

// Dir is a directory with mode 0755.
func Dir(path string) Entry {
	return Entry{Path: path, Type: tar.TypeDir, Mode: 0o755, ModTime: someTime}
}

// Symlink is a symbolic link.
func Symlink(path, target string) Entry {
	return Entry{Path: path, Type: tar.TypeSymlink, Mode: 0o777, ModTime: someTime, Link: target}
}

// Hardlink is another name of the file at target.
func Hardlink(path, target string) Entry {
	return Entry{Path: path, Type: tar.TypeLink, Mode: 0o644, ModTime: someTime, Link: target}
}

const someTime = 1_234_567_890 // 2009-02-13

// Pack makes an archive of the entries, in their order.
func (c *C) Pack(entries []Entry) []byte {
	b, err := pack(entries)
	if err != nil {
		c.Broken(err)
	}
	return b
}

func pack(entries []Entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Name: e.Path, Typeflag: e.Type, Mode: e.Mode, Uid: e.UID, Gid: e.GID, Linkname: e.Link,
			ModTime: time.Unix(e.ModTime, 0), Size: int64(len(e.Data)), Format: tar.FormatPAX,
		}
		if e.Type == tar.TypeDir {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("packing %q: %w", e.Path, err)
		}
		if _, err := io.WriteString(w, e.Data); err != nil {
			return nil, fmt.Errorf("packing %q: %w", e.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Unpack reads an archive into entries in the order of their paths; an entry for the root itself is left out. It is the suite's own
// way to look at a tree, on the standard library's reader.
func Unpack(r io.Reader) ([]Entry, error) {
	var entries []Entry
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the archive after %d entries: %w", len(entries), err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return nil, fmt.Errorf("reading %q of the archive: %w", h.Name, err)
		}
		e := Entry{
			Path: cleanPath(h.Name), Type: h.Typeflag, Mode: h.Mode & 0o7777, UID: h.Uid, GID: h.Gid,
			ModTime: h.ModTime.Unix(), Data: string(data), Link: h.Linkname,
		}
		if e.Type == tar.TypeLink {
			e.Link = cleanPath(e.Link)
		}
		if e.Path != "." {
			entries = append(entries, e)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	nameFirst(entries)
	return entries, nil
}

// nameFirst makes the first path of each file that has several the regular one, and the others links to it: which one an
// archive tells first is nobody's business.
func nameFirst(entries []Entry) {
	for i, e := range entries {
		if e.Type != tar.TypeLink {
			continue
		}
		j := slices.IndexFunc(entries, func(o Entry) bool { return o.Path == e.Link && o.Type != tar.TypeLink })
		if j < i {
			continue // it is in order, or its target is missing
		}
		old := entries[j].Path
		entries[i], entries[j] = entries[j], entries[i]
		entries[i].Path, entries[j].Path = e.Path, old
		for k := range entries {
			if entries[k].Type == tar.TypeLink && (entries[k].Link == old || k == j) {
				entries[k].Link = e.Path
			}
		}
	}
}

func cleanPath(name string) string { return path.Clean(strings.TrimPrefix(name, "/")) }

// Ignore names what a comparison of trees leaves out.
type Ignore uint8

// What can be left out.
const (
	IgnoreDirTimes Ignore = 1 << iota
	IgnoreTimes           // of all
	IgnoreOwners
	IgnoreModes
	// IgnoreMeta leaves out all but paths, types, content and links.
	IgnoreMeta = IgnoreTimes | IgnoreOwners | IgnoreModes
)

// WantTree fails the case unless a tree holds exactly the entries, in whatever order they are given. Modes of symbolic links
// and, for hard links, all but the name of the other one are never compared.
func (c *C) WantTree(got []Entry, want []Entry, ignore Ignore, what string, args ...any) {
	for _, d := range compareTrees(got, want, ignore) {
		c.Errorf("a tree comes out as it went in: a step's result is what its files are", "%s: %s", fmt.Sprintf(what, args...), d)
	}
}

func compareTrees(got, want []Entry, ignore Ignore) []string {
	var diffs []string
	seen := make(map[string]bool)
	byPath := make(map[string]Entry)
	for _, e := range got {
		if seen[e.Path] {
			diffs = append(diffs, fmt.Sprintf("%q comes twice", e.Path))
		}
		seen[e.Path] = true
		byPath[e.Path] = e
	}
	for _, w := range want {
		g, ok := byPath[w.Path]
		delete(byPath, w.Path)
		if !ok {
			diffs = append(diffs, fmt.Sprintf("%q is missing", w.Path))
			continue
		}
		if g, w = g.blank(ignore), w.blank(ignore); g != w {
			diffs = append(diffs, fmt.Sprintf("%q is %v, want %v", w.Path, g, w))
		}
	}
	for _, e := range got {
		if _, extra := byPath[e.Path]; extra {
			diffs = append(diffs, fmt.Sprintf("%q is there and should not be: %v", e.Path, e))
			delete(byPath, e.Path)
		}
	}
	return diffs
}

// blank empties what is not compared.
func (e Entry) blank(ignore Ignore) Entry {
	if e.Type == 0 {
		e.Type = tar.TypeReg
	}
	if ignore&IgnoreTimes != 0 || e.Type == tar.TypeDir && ignore&IgnoreDirTimes != 0 {
		e.ModTime = 0
	}
	if ignore&IgnoreOwners != 0 {
		e.UID, e.GID = 0, 0
	}
	if ignore&IgnoreModes != 0 || e.Type == tar.TypeSymlink {
		e.Mode = 0
	}
	if e.Type == tar.TypeLink {
		e.Mode, e.UID, e.GID, e.ModTime, e.Data = 0, 0, 0, 0, ""
	}
	return e
}

// String shows an entry in a line.
func (e Entry) String() string {
	s := fmt.Sprintf("{type %q mode %04o owner %d:%d time %d", e.Type, e.Mode, e.UID, e.GID, e.ModTime)
	if e.Link != "" {
		s += fmt.Sprintf(" link %q", e.Link)
	}
	if len(e.Data) > 40 {
		return s + fmt.Sprintf(" data %d bytes %q…}", len(e.Data), e.Data[:40])
	}
	return s + fmt.Sprintf(" data %q}", e.Data)
}
