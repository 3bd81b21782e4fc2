package stream_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// noMode tells a mode of zero from one that is not given.
const noMode = 1 << 30

// archive makes one of entries, whose content is in Uname.
func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		content := h.Uname
		h.Uname, h.Size = "", int64(len(content))
		global := h.Typeflag == tar.TypeXGlobalHeader
		if h.Mode == 0 && !global {
			h.Mode = 0o755
		}
		if h.ModTime.IsZero() && !global {
			h.ModTime = time.Unix(1e9, 0)
		}
		h.Mode &^= noMode
		must(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, content)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func file(name, content string) tar.Header { return tar.Header{Name: name, Uname: content} }
func dir(name string) tar.Header           { return tar.Header{Name: name, Typeflag: tar.TypeDir} }
func dirMode(name string, mode int64) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode | noMode}
}
func fileMode(name string, mode int64) tar.Header { return tar.Header{Name: name, Mode: mode | noMode} }
func link(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
}
func hard(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to}
}

// guarded gives an empty directory to unpack into, in the middle of things that must not change.
func guarded(t testing.TB) (into string, unchanged func()) {
	t.Helper()
	base := tempDir(t)
	into = filepath.Join(base, "into")
	for _, d := range []string{"into", "outside"} {
		must(t, os.Mkdir(filepath.Join(base, d), 0o755))
	}
	put(t, filepath.Join(base, "outside/canary"), "alive")
	put(t, filepath.Join(base, "canary"), "alive")
	look := func() map[string]entry {
		all := snapshot(t, base)
		for name := range all {
			if strings.HasPrefix(name, "into") {
				delete(all, name)
			}
		}
		return all
	}
	before := look()
	return into, func() {
		t.Helper()
		wantSame(t, "outside", before, look())
	}
}

func TestUnpackHostile(t *testing.T) {
	abs := func(into string) string { return filepath.Join(filepath.Dir(into), "outside") }
	for name, c := range map[string]struct {
		entries func(into string) []tar.Header
		entry   string // that is named
	}{
		"dot dot":               {func(string) []tar.Header { return []tar.Header{file("../canary", "dead")} }, "../canary"},
		"dot dot inside":        {func(string) []tar.Header { return []tar.Header{file("a/../../canary", "dead")} }, "a/../../canary"},
		"absolute":              {func(into string) []tar.Header { return []tar.Header{file(abs(into)+"/canary", "dead")} }, "/"},
		"through a link":        {func(string) []tar.Header { return []tar.Header{link("l", "../outside"), file("l/canary", "dead")} }, "l/canary"},
		"through absolute link": {func(into string) []tar.Header { return []tar.Header{link("l", abs(into)), file("l/canary", "dead")} }, "l/canary"},
		"through two links": {func(string) []tar.Header {
			return []tar.Header{link("b", ".."), link("a", "b/outside"), file("a/canary", "dead")}
		}, "a/canary"},
		"directory through link": {func(string) []tar.Header { return []tar.Header{link("l", "../outside"), dir("l")} }, "l"},
		"below link to outside":  {func(string) []tar.Header { return []tar.Header{link("l", "../outside"), dir("l/new")} }, "l/new"},
		"hard link out":          {func(string) []tar.Header { return []tar.Header{hard("h", "../canary")} }, "h"},
		"hard link absolute":     {func(into string) []tar.Header { return []tar.Header{hard("h", abs(into)+"/canary")} }, "h"},
		"hard link through link": {func(string) []tar.Header {
			return []tar.Header{link("l", "../outside"), hard("h", "l/canary"), file("h", "dead")}
		}, "h"},
		"symlink below link": {func(string) []tar.Header { return []tar.Header{link("l", "../outside"), link("l/x", "y")} }, "l/x"},
		"hard link to none":  {func(string) []tar.Header { return []tar.Header{hard("h", "none")} }, "h"},
		"hard link to dir":   {func(string) []tar.Header { return []tar.Header{dir("d"), hard("h", "d")} }, "h"},
		"hard link to self":  {func(string) []tar.Header { return []tar.Header{hard("h", "./h")} }, "h"},
		"the root as a file": {func(string) []tar.Header { return []tar.Header{file(".", "x")} }, "."},
		"the root as a link": {func(string) []tar.Header { return []tar.Header{link(".", "../outside")} }, "."},
		"dir then file":      {func(string) []tar.Header { return []tar.Header{dir("x"), file("x", "")} }, "x"},
		"file then dir":      {func(string) []tar.Header { return []tar.Header{file("x", ""), dir("x")} }, "x"},
		"file as a parent":   {func(string) []tar.Header { return []tar.Header{file("x", ""), file("x/y", "")} }, "x/y"},
		"fifo":               {func(string) []tar.Header { return []tar.Header{{Name: "p", Typeflag: tar.TypeFifo}} }, "p"},
		"device": {func(string) []tar.Header {
			return []tar.Header{{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}
		}, "null"},
		"link loop":       {func(string) []tar.Header { return []tar.Header{link("a", "b"), link("b", "a"), file("a/x", "")} }, "a/x"},
		"time of no file": {func(string) []tar.Header { return []tar.Header{{Name: "x", ModTime: time.Unix(1<<40, 0)}} }, "x"},
		"name too long":   {func(string) []tar.Header { return []tar.Header{file(strings.Repeat("n", 300), "")} }, "nnn"},
	} {
		t.Run(name, func(t *testing.T) {
			into, unchanged := guarded(t)
			err := stream.UnpackDir(t.Context(), bytes.NewReader(archive(t, c.entries(into)...)), into)
			ue, ok := errors.AsType[*stream.UnpackError](err)
			if !ok || !strings.HasPrefix(ue.Entry, c.entry) {
				t.Errorf("got %v (%T), want one that names %q", err, err, c.entry)
			}
			unchanged()
		})
	}
}

// What is odd but harmless comes out.
func TestUnpackOdd(t *testing.T) {
	for name, c := range map[string]struct {
		entries []tar.Header
		want    map[string]string // content or link by path
	}{
		"links that lead out stay links": {[]tar.Header{link("l", "../outside/canary"), link("m", "/etc")}, map[string]string{"l": "../outside/canary", "m": "/etc"}},
		"a file in a link's place":       {[]tar.Header{link("l", "../outside/canary"), file("l", "new")}, map[string]string{"l": "new"}},
		"a link in a file's place":       {[]tar.Header{file("l", "old"), link("l", "x")}, map[string]string{"l": "x"}},
		"the later one wins":             {[]tar.Header{file("x", "longer than"), file("x", "this")}, map[string]string{"x": "this"}},
		"a replaced twin leaves the other": {
			[]tar.Header{file("a", "old"), hard("b", "a"), file("a", "new")}, map[string]string{"a": "new", "b": "old"},
		},
		"parents that are only implied": {[]tar.Header{file("a/b/c", "deep")}, map[string]string{"a": "", "a/b": "", "a/b/c": "deep"}},
		"through a link inside":         {[]tar.Header{dir("d"), link("l", "d"), file("l/x", "in d")}, map[string]string{"d": "", "l": "d", "d/x": "in d"}},
		"a hard link to a link":         {[]tar.Header{link("l", "x"), hard("h", "l")}, map[string]string{"l": "x", "h": "x"}},
		"the root itself":               {[]tar.Header{dir("./"), dir("."), file("./x", "x")}, map[string]string{"x": "x"}},
		"a comment": {
			[]tar.Header{{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "git"}}, file("x", "x")}, map[string]string{"x": "x"},
		},
		"nothing": {nil, map[string]string{}},
		"a file in a directory that is read only": {
			[]tar.Header{{Name: "d", Typeflag: tar.TypeDir, Mode: 0o500}, file("d/x", "x"), dir("d/e")}, map[string]string{"d": "", "d/x": "x", "d/e": ""},
		},
		"names with dots": {[]tar.Header{file("..x", "1"), file("...", "2"), file("a/./b", "3")}, map[string]string{"..x": "1", "...": "2", "a": "", "a/b": "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			into, unchanged := guarded(t)
			must(t, stream.UnpackDir(t.Context(), bytes.NewReader(archive(t, c.entries...)), into))
			unchanged()
			got := make(map[string]string)
			for path, e := range snapshot(t, into) {
				got[path] = ""
				switch e.Mode.Type() {
				case 0:
					b, err := os.ReadFile(filepath.Join(into, path))
					must(t, err)
					got[path] = string(b)
				case fs.ModeSymlink:
					got[path] = e.Content
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for path, want := range c.want {
				if got[path] != want {
					t.Errorf("%s is %q, want %q", path, got[path], want)
				}
			}
		})
	}
}

// An entry that comes twice has the mode and time of the later one, also where it is a directory with children between.
func TestUnpackDirTwice(t *testing.T) {
	into := tempDir(t)
	when := time.Unix(1.5e9, 0)
	must(t, stream.UnpackDir(t.Context(), bytes.NewReader(archive(t, dir("d"), file("d/x", "x"),
		tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o711, ModTime: when})), into))
	info, err := os.Stat(filepath.Join(into, "d"))
	must(t, err)
	if info.Mode().Perm() != 0o711 || !info.ModTime().Equal(when) {
		t.Errorf("got %v, %v", info.Mode(), info.ModTime())
	}
}

// cuts are places where an archive may be cut off: between blocks, beside that, and within.
func cuts(archive []byte) []int {
	var all []int
	for n := range len(archive) {
		if r := n % 512; r <= 1 || r == 511 || r%101 == 0 {
			all = append(all, n)
		}
	}
	return all
}

// Wherever an archive is cut off, that is an error, and one of the archive's.
func TestUnpackTruncated(t *testing.T) {
	whole := archive(t, dir("d"), file("d/x", strings.Repeat("x", 1000)), link("l", "x"), file("zeros", strings.Repeat("\x00", 1024)))
	for _, n := range cuts(whole) {
		err := stream.UnpackDir(t.Context(), bytes.NewReader(whole[:n]), tempDir(t))
		if !errors.Is(err, sdk.ReasonArchive) || sdk.ClassOf(err) != sdk.Invalid {
			t.Fatalf("cut off at %d of %d: %v", n, len(whole), err)
		}
	}
	// However the reader hands it out.
	must(t, stream.UnpackDir(t.Context(), iotest.OneByteReader(bytes.NewReader(whole)), tempDir(t)))
	must(t, stream.UnpackDir(t.Context(), iotest.DataErrReader(bytes.NewReader(whole)), tempDir(t)))
}

// What follows the end is read, for a relay wants all to be read.
func TestUnpackReadsPadding(t *testing.T) {
	r := bytes.NewReader(append(archive(t, file("x", "x")), make([]byte, 10240)...))
	must(t, stream.UnpackDir(t.Context(), r, tempDir(t)))
	if r.Len() > 0 {
		t.Errorf("%d bytes are left", r.Len())
	}
}

func TestUnpackReaderFails(t *testing.T) {
	whole := archive(t, file("x", strings.Repeat("x", 1000)))
	for _, n := range cuts(whole) {
		err := stream.UnpackDir(t.Context(), io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(errBroken)), tempDir(t))
		if err != errBroken {
			t.Fatalf("after %d bytes: %v, want the reader's own error", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stream.UnpackDir(ctx, bytes.NewReader(whole), tempDir(t)); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

func TestUnpackNeedsEmptyDir(t *testing.T) {
	full := tempDir(t)
	put(t, filepath.Join(full, "x"), "mine")
	if err := stream.UnpackDir(t.Context(), bytes.NewReader(archive(t, file("x", ""))), full); !errors.Is(err, stream.ErrNotEmpty) {
		t.Errorf("into a full one: %v", err)
	}
	if err := stream.UnpackDir(t.Context(), bytes.NewReader(archive(t)), filepath.Join(full, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into none: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(full, "x")); err != nil || string(b) != "mine" {
		t.Errorf("what was there became %q, %v", b, err)
	}
}

func TestUnpackMaxBytes(t *testing.T) {
	whole := archive(t, file("a", strings.Repeat("x", 600)), file("b", strings.Repeat("x", 400)))
	must(t, stream.Unpacker{MaxBytes: 1000}.Unpack(t.Context(), bytes.NewReader(whole), tempDir(t)))
	err := stream.Unpacker{MaxBytes: 999}.Unpack(t.Context(), bytes.NewReader(whole), tempDir(t))
	if !errors.Is(err, sdk.ReasonTooLarge) || sdk.ClassOf(err) != sdk.Invalid {
		t.Errorf("got %v", err)
	}
}

// FuzzUnpackDir: whatever an archive says, nothing outside changes, and what comes out packs again.
func FuzzUnpackDir(f *testing.F) {
	f.Add(archive(f, dir("d"), file("d/x", "content"), link("l", "../outside"), hard("h", "d/x")))
	f.Add(archive(f, link("l", "../outside"), file("l/canary", "dead")))
	f.Add(archive(f, file("../canary", "dead")))
	f.Add(archive(f, link("l", ".."), link("m", "l/outside"), hard("m/x", "m/canary"), dir("m/canary")))
	f.Add(archive(f, tar.Header{Name: strings.Repeat("long/", 40) + "x", Uname: "x", PAXRecords: map[string]string{"a.b": "c"}, Mode: 0o7777}))
	f.Fuzz(func(t *testing.T, b []byte) {
		into, unchanged := guarded(t)
		err := stream.Unpacker{SetID: true, MaxBytes: 1 << 20}.Unpack(t.Context(), bytes.NewReader(b), into)
		unchanged()
		if err != nil {
			return
		}
		again := tempDir(t)
		must(t, stream.Unpacker{SetID: true}.Unpack(t.Context(), bytes.NewReader(pack(t, into)), again))
		wantSame(t, "packed again", snapshot(t, into), snapshot(t, again))
	})
}
