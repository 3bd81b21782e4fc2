package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func pack(t testing.TB, tr *Tree, p string) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := tr.WriteTar(context.Background(), &buf, p); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func unpack(tr *Tree, data []byte, p string) error {
	return tr.ReadTar(context.Background(), bytes.NewReader(data), p)
}

// archive writes entries with archive/tar; the content of a file is its text.
type ent struct {
	tar.Header
	text string
}

func archive(t testing.TB, ents ...ent) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range ents {
		if e.Size == 0 {
			e.Size = int64(len(e.text))
		}
		if e.Mode == 0 && e.Typeflag != tar.TypeXGlobalHeader {
			e.Mode = 0o644
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func reg(name, text string) ent {
	return ent{tar.Header{Typeflag: tar.TypeReg, Name: name}, text}
}
func dir(name string) ent {
	return ent{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}
func sym(name, target string) ent {
	return ent{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}
func hard(name, target string) ent {
	return ent{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

// zoo fills a tree with one of everything that a volume can hold.
func zoo(t *testing.T, w world) {
	w.Helper()
	w.ok(w.MkdirAll("/", "/dir/sub", 0o755))
	w.ok(w.Mkdir("/", "/empty", 0o700))
	w.put("/none", "")
	w.put("/dir/file", "text")
	w.put("/dir/"+strings.Repeat("l", 255), "long name")
	w.put("/big", strings.Repeat("0123456789abcdef", 3*chunkSize/16)+"x")
	w.ok(w.Link("/", "/dir/file", "/dir/sub/hard"))
	w.ok(w.Link("/", "/dir/file", "/another"))
	for name, target := range map[string]string{
		"abs": "/dir/file", "rel": "sub/../file", "dangling": "no/such", "loop": "loop", "out": "../../../etc/passwd",
		"far": strings.Repeat("t", 300),
	} {
		w.ok(w.Symlink("/", target, "/dir/"+name))
	}
	for _, name := range []string{"\xff\xfe", "a\nb", "tab\t", "-rf", " lead", "~", "dot.", "end ", `back\slash`, "é", "e\u0301", "Case", "case"} {
		w.put("/dir/sub/"+name, name)
	}
	deep := "/deep"
	w.ok(w.Mkdir("/", deep, 0o755))
	for range 500 {
		deep += "/d"
		w.ok(w.Mkdir("/", deep, 0o755))
	}
	for mode := fs.FileMode(0); mode < 0o1000; mode += 0o37 {
		p := fmt.Sprintf("/dir/m%o", mode)
		w.put(p, "")
		w.ok(w.Chmod("/", p, mode))
	}
	w.ok(w.Chmod("/", "/dir/file", 0o755|fs.ModeSetuid))
	w.ok(w.Chmod("/", "/dir/sub", 0o775|fs.ModeSetgid))
	w.ok(w.Chmod("/", "/empty", 0o777|fs.ModeSticky))
	w.ok(w.Lchown("/", "/big", 1<<21+1, 1<<31-1))
	w.ok(w.Lchown("/", "/dir/abs", 1234, 4321))
	f, err := w.Open("/", "/sparse", os.O_CREATE|os.O_RDWR, 0o600)
	w.ok(err)
	w.ok(f.Truncate(10 * chunkSize))
	_, err = f.WriteAt([]byte("data"), 5*chunkSize-2)
	w.ok(err)
	w.ok(f.Close())
	for p, at := range map[string]time.Time{
		"/none": time.Unix(-1000, 5), "/big": time.Unix(1<<33, 123456789), "/dir/file": time.Unix(1e9, 1),
		"/dir/sub": time.Unix(-1, 999999999), "/dir": time.Unix(2e9, 7), "/": time.Unix(1234567890, 0), "/empty": time.Unix(0, 0),
	} {
		w.ok(w.Chtimes("/", p, at))
	}
}

// same compares all that tar keeps.
func same(t *testing.T, a, b *Tree) {
	t.Helper()
	if d := cmp.Diff(tarState(t, a), tarState(t, b)); d != "" {
		t.Errorf("(-) in, (+) out:\n%s", d)
	}
}

func tarState(t *testing.T, tr *Tree) []string {
	t.Helper()
	var all []string
	first := make(map[uint64]string)
	var walk func(p string)
	walk = func(p string) {
		fi, err := tr.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		in := fi.(info)
		if first[in.ino] == "" {
			first[in.ino] = p
		}
		line := fmt.Sprintf("%.60q %v %d:%d links %d size %d at %v %.60q = %.60q", p, in.mode, in.uid, in.gid, in.nlink, in.size,
			in.mtime.UnixNano(), in.target, first[in.ino])
		switch {
		case fi.IsDir():
			list, err := tr.List(p)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				for _, e := range list {
					walk(p + "/" + e.Name())
				}
			}()
		case fi.Mode().IsRegular():
			text, err := fs.ReadFile(treeFS{tr}, p)
			if err != nil {
				t.Fatal(err)
			}
			line += fmt.Sprintf(" %.80q", text)
			if len(text) > 80 {
				line += fmt.Sprint(bytes.Count(text, []byte{0}))
			}
		}
		all = append(all, line)
	}
	walk("")
	return all
}

func TestTarRoundTrip(t *testing.T) {
	b := newBudget(t, 0)
	in, out := newTree(t, b), newTree(t, b)
	zoo(t, newWorld(t, in))
	data := pack(t, in, "")
	if err := unpack(out, data, ""); err != nil {
		t.Fatal(err)
	}
	same(t, in, out)
	if again := pack(t, out, "."); !bytes.Equal(data, again) {
		t.Error("the same content gives another stream")
	}
	if !bytes.Equal(data, pack(t, in, "/")) {
		t.Error("the same tree gives another stream")
	}
	if err := unpack(out, data, ""); err != nil { // over itself
		t.Fatal(err)
	}
	same(t, in, out)
	if err := audit(b, in, out); err != nil {
		t.Error(err)
	}
	// One byte, or half a block, at a time.
	for _, r := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		other := newTree(t, b)
		if err := other.ReadTar(context.Background(), r(bytes.NewReader(data)), ""); err != nil {
			t.Fatal(err)
		}
		same(t, in, other)
	}
}

func TestTarAsArchiveTarReadsIt(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	w.ok(w.Mkdir("/", "d", 0o751))
	w.put("/d/b", "bb")
	w.put("/d/a", "a")
	w.ok(w.Link("/", "/d/a", "/d/c"))
	w.ok(w.Symlink("/", "a", "/d/s"))
	w.ok(w.Chmod("/", "/d/b", 0o755|fs.ModeSetuid))
	w.ok(w.Lchown("/", "/d/a", 7, 8))
	for _, p := range []string{"/d", "/d/b", "/d/a", "/"} {
		w.ok(w.Chtimes("/", p, time.Unix(99, 5)))
	}
	list := func(p string) []string {
		var all []string
		r := tar.NewReader(bytes.NewReader(pack(t, tr, p)))
		for {
			h, err := r.Next()
			if err == io.EOF {
				return all
			}
			w.ok(err)
			text, err := io.ReadAll(r)
			w.ok(err)
			at := ""
			if h.Typeflag != tar.TypeSymlink {
				at = fmt.Sprint(h.ModTime.UnixNano())
			}
			all = append(all, fmt.Sprintf("%c %s %o %d:%d %s%s %s", h.Typeflag, h.Name, h.Mode, h.Uid, h.Gid, h.Linkname, text, at))
		}
	}
	for p, want := range map[string][]string{
		"": {
			"5 ./ 755 0:0  99000000005", "5 d/ 751 0:0  99000000005", "0 d/a 644 7:8 a 99000000005",
			"0 d/b 4755 0:0 bb 99000000005", "1 d/c 644 7:8 d/a 99000000005", "2 d/s 777 0:0 a ",
		},
		"d": {
			"5 ./ 751 0:0  99000000005", "0 a 644 7:8 a 99000000005",
			"0 b 4755 0:0 bb 99000000005", "1 c 644 7:8 a 99000000005", "2 s 777 0:0 a ",
		},
		"/d/c": {"0 c 644 7:8 a 99000000005"},
		"d/s":  {"2 s 777 0:0 a "},
	} {
		if d := cmp.Diff(want, list(p)); d != "" {
			t.Errorf("%q:\n%s", p, d)
		}
	}
	if d := cmp.Diff(list("d"), list("d/")); d != "" {
		t.Error(d)
	}
	for p, want := range map[string]error{"no": fs.ErrNotExist, "d/a/x": syscall.ENOTDIR, "../d": syscall.EINVAL} {
		w.is(tr.WriteTar(context.Background(), io.Discard, p), want)
	}
}

func TestReadTarIntoWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name string
		ents []ent
		path string
		want error
		see  map[string]string // path → content, or -> target
	}{
		{name: "parents are made", ents: []ent{reg("x/y/z", "1")}, path: "p/q", see: map[string]string{"p/q/x/y/z": "1"}},
		{name: "nothing but an end", path: "p/q", see: map[string]string{"f": "old"}},
		{name: "file replaces file", ents: []ent{reg("f", "new")}, see: map[string]string{"f": "new", "g": "old"}},
		{name: "file replaces symlink", ents: []ent{reg("tof", "new")}, see: map[string]string{"tof": "new", "f": "old"}},
		{name: "symlink replaces file", ents: []ent{sym("f", "g")}, see: map[string]string{"f": "-> g"}},
		{name: "dir replaces symlink", ents: []ent{dir("tod"), reg("tod/n", "n")}, see: map[string]string{"tod/n": "n", "d/x": "x"}},
		{name: "dir is merged", ents: []ent{dir("d"), reg("d/n", "n")}, see: map[string]string{"d/n": "n", "d/x": "x"}},
		{name: "hard link replaces", ents: []ent{reg("n", "n"), hard("f", "n")}, see: map[string]string{"f": "n", "g": "old"}},
		{name: "hard link to itself", ents: []ent{hard("g", "f")}, see: map[string]string{"f": "old", "g": "old"}},
		{name: "hard link below a path", ents: []ent{reg("n", "n"), hard("m", "/n")}, path: "p", see: map[string]string{"p/m": "n"}},
		{name: "hard link to a symlink is one to it", ents: []ent{sym("s", "/etc"), hard("h", "s")}, see: map[string]string{"h": "-> /etc"}},
		{name: "absolute names", ents: []ent{reg("/etc/x", "1")}, path: "p", see: map[string]string{"p/etc/x": "1"}},
		{name: "dots inside", ents: []ent{reg("./a/../b/./c", "1")}, see: map[string]string{"b/c": "1"}},
		{name: "into the root of a path", ents: []ent{dir("./"), reg("./n", "1")}, path: "d", see: map[string]string{"d/n": "1", "d/x": "x"}},

		{name: "file over dir", ents: []ent{reg("d", "x")}, want: syscall.EISDIR},
		{name: "symlink over dir", ents: []ent{sym("d", "f")}, want: syscall.EISDIR},
		{name: "hard link over dir", ents: []ent{hard("d", "f")}, want: syscall.EISDIR},
		{name: "file over the root", ents: []ent{reg(".", "x")}, want: syscall.EISDIR},
		{name: "dir over file", ents: []ent{dir("f")}, want: syscall.ENOTDIR},
		{name: "below a file", ents: []ent{reg("f/x", "x")}, want: syscall.ENOTDIR},
		{name: "out by dots", ents: []ent{reg("../x", "x")}, want: ErrUnsafe},
		{name: "out by dots in the middle", ents: []ent{reg("a/../../x", "x")}, want: ErrUnsafe},
		{name: "out by dots from a path", ents: []ent{reg("../f", "x")}, path: "d", want: ErrUnsafe},
		{name: "through a symlink that is there", ents: []ent{reg("tod/y", "x")}, want: ErrUnsafe},
		{name: "through a symlink it brings", ents: []ent{sym("s", "/etc"), reg("s/y", "x")}, want: ErrUnsafe},
		{name: "dir through a symlink", ents: []ent{sym("s", "d"), dir("s/y")}, want: ErrUnsafe},
		{name: "hard link out", ents: []ent{hard("h", "../../etc/passwd")}, want: ErrUnsafe},
		{name: "hard link through a symlink", ents: []ent{hard("h", "tod/x")}, want: ErrUnsafe},
		{name: "hard link to nothing", ents: []ent{hard("h", "/etc/passwd")}, want: fs.ErrNotExist},
		{name: "hard link to a dir", ents: []ent{hard("h", "d")}, want: syscall.EISDIR},
		{name: "name too long", ents: []ent{reg(strings.Repeat("n", 256), "x")}, want: syscall.ENAMETOOLONG},
		{name: "target too long", ents: []ent{sym("s", strings.Repeat("n", 4096))}, want: syscall.ENAMETOOLONG},
		{name: "device", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}}, want: errors.ErrUnsupported},
		{name: "block device", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeBlock, Name: "sda"}}}, want: errors.ErrUnsupported},
		{name: "fifo", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}}}, want: errors.ErrUnsupported},
		{name: "other type", ents: []ent{{Header: tar.Header{Typeflag: 'Z', Name: "z"}}}, want: errors.ErrUnsupported},
		{name: "owner out of range", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeReg, Name: "z", Uid: 1 << 32}}}, want: syscall.EINVAL},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBudget(t, 0)
			tr := newTree(t, b)
			w := newWorld(t, tr)
			w.put("/f", "old")
			w.ok(w.Link("/", "f", "g"))
			w.ok(w.Symlink("/", "f", "tof"))
			w.ok(w.Mkdir("/", "d", 0o700))
			w.put("/d/x", "x")
			w.ok(w.Symlink("/", "d", "tod"))
			before := tr.Clone()
			defer before.Release()
			was := pack(t, before, "")

			err := unpack(tr, archive(t, c.ents...), c.path)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if c.want != nil {
				var ee *EntryError
				if last := c.ents[len(c.ents)-1]; !errors.As(err, &ee) || ee.Name != last.Name {
					t.Errorf("the error does not name the entry: %#v", err)
				}
				w.equal(w.get("/f"), "old")
			}
			for p, want := range c.see {
				if target, ok := strings.CutPrefix(want, "-> "); ok {
					got, err := tr.Readlink(p)
					w.ok(err)
					w.equal(got, target)
					continue
				}
				w.equal(w.get("/"+p), want)
			}
			if !bytes.Equal(was, pack(t, before, "")) {
				t.Error("a clone was changed")
			}
			if err := audit(b, tr, before); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReadTarPath(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	w.put("/f", "f")
	w.ok(w.Symlink("/", "/", "s"))
	data := archive(t, reg("x", "x"))
	for p, want := range map[string]error{"../x": syscall.EINVAL, "f": syscall.ENOTDIR, "f/x": syscall.ENOTDIR, "s/x": ErrUnsafe} {
		err := unpack(tr, data, p)
		var pe *fs.PathError
		if !errors.Is(err, want) || !errors.As(err, &pe) || pe.Path != p {
			t.Errorf("%q: got %v, want %v", p, err, want)
		}
	}
	tr.Seal()
	w.is(unpack(tr, data, ""), syscall.EROFS)
}

func TestReadTarDamaged(t *testing.T) {
	whole := archive(t, dir("d"), reg("d/f", strings.Repeat("x", 3*chunkSize)), reg("g", strings.Repeat("\x00", 1024)))
	end := len(whole) - 1024
	flip := slices.Clone(whole)
	flip[512+100]++ // in the second header
	liar := slices.Clone(archive(t, reg("g", "x")))
	copy(liar[124:136], "77777777777\x00")
	for name, data := range map[string][]byte{
		"empty": nil, "one byte": {1}, "in a header": whole[:700], "in a file": whole[:100000], "before the marker": whole[:end],
		"after a file of zeros": whole[:end-512], "garbage": bytes.Repeat([]byte("garbage!"), 200), "header flipped": flip, "size lies": liar,
		"gzip": append([]byte{0x1f, 0x8b}, make([]byte, 2000)...),
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, newBudget(t, 0))
			if err := unpack(tr, data, "p"); !errors.Is(err, ErrArchive) {
				t.Errorf("got %v", err)
			}
		})
	}
	for name, data := range map[string][]byte{
		"as it is": whole, "more zeros": append(slices.Clone(whole), make([]byte, 9<<10)...),
		"garbage behind": append(slices.Clone(whole), "garbage"...), "marker only": make([]byte, 1024),
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, newBudget(t, 0))
			r := bytes.NewReader(data)
			if err := tr.ReadTar(context.Background(), r, ""); err != nil {
				t.Error(err)
			}
			if r.Len() != 0 {
				t.Errorf("%d bytes were not read", r.Len())
			}
		})
	}
}

func TestTarNeverShowsHalfAFile(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	data := archive(t, reg("f", strings.Repeat("x", 3*chunkSize)))
	if err := unpack(tr, data[:2*chunkSize], ""); !errors.Is(err, ErrArchive) {
		t.Fatal(err)
	}
	if _, err := tr.Stat("f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file is there: %v", err)
	}
}

func TestTarDirectoryTimes(t *testing.T) {
	at := time.Unix(1e9, 0)
	d := dir("d/")
	d.ModTime = at
	root := dir("./")
	root.ModTime = at.Add(time.Second)
	root.Mode = 0o1777
	tr := newTree(t, newBudget(t, 0))
	if err := unpack(tr, archive(t, root, d, reg("d/f", "x"), reg("f", "x")), ""); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]time.Time{"": at.Add(time.Second), "d": at} {
		fi, err := tr.Stat(p)
		if err != nil || !fi.ModTime().Equal(want) {
			t.Errorf("%q: %v, %v", p, fi, err)
		}
	}
	if fi, _ := tr.Stat(""); fi.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("root: %v", fi.Mode())
	}
}

func TestTarDialects(t *testing.T) {
	long := strings.Repeat("directory/", 20) + strings.Repeat("f", 120)
	for _, f := range []tar.Format{tar.FormatUSTAR, tar.FormatPAX, tar.FormatGNU} {
		t.Run(f.String(), func(t *testing.T) {
			e, s := reg("dir/file", "text"), sym("link", "dir/file")
			ents := []ent{e, s}
			if f != tar.FormatUSTAR {
				ents = append(ents, reg(long, "long"), sym("long", long))
			}
			for i := range ents {
				ents[i].Format = f
			}
			if f == tar.FormatPAX {
				g := ent{Header: tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}}}
				ents = append([]ent{g}, ents...)
			}
			tr := newTree(t, newBudget(t, 0))
			w := newWorld(t, tr)
			w.ok(unpack(tr, archive(t, ents...), ""))
			w.equal(w.get("/link"), "text")
			if f != tar.FormatUSTAR {
				w.equal(w.get("/long"), "long")
			}
		})
	}
	t.Run("v7", func(t *testing.T) {
		tr := newTree(t, newBudget(t, 0))
		w := newWorld(t, tr)
		w.ok(unpack(tr, slices.Concat(v7("d/", ""), v7("d/f", "text"), make([]byte, 1024)), ""))
		w.equal(w.get("/d/f"), "text")
	})
}

// v7 is an entry as Unix V7 wrote them: no magic, and a directory is known by
// its slash.
func v7(name, text string) []byte {
	b := make([]byte, 512, 1024)
	copy(b, name)
	copy(b[100:], "0000755\x00")
	copy(b[108:], "0000000\x000000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00", len(text)))
	copy(b[136:], "00000000000\x00        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	if text != "" {
		b = append(b, text...)
		b = append(b, make([]byte, 512-len(text)%512)...)
	}
	return b
}

func TestTarOverBudget(t *testing.T) {
	b := newBudget(t, 10*chunkSize)
	tr := newTree(t, b)
	r := &endless{head: archive(t, reg("big", "x"))[:512]}
	copy(r.head[124:136], "77777777777\x00")
	fixSum(r.head)
	err := tr.ReadTar(context.Background(), r, "")
	var ee *EntryError
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &ee) || ee.Name != "big" {
		t.Fatalf("got %v", err)
	}
	if r.n > 12*chunkSize {
		t.Errorf("read %d bytes before it gave up", r.n)
	}
	if err := audit(b, tr); err != nil {
		t.Error(err)
	}
	var small []ent
	for i := range 10000 {
		small = append(small, reg(fmt.Sprint(i), ""))
	}
	if err := unpack(tr, archive(t, small...), ""); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	if err := audit(b, tr); err != nil {
		t.Error(err)
	}
}

func fixSum(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, c := range h[:512] {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
}

// endless gives a header and then zeros for ever.
type endless struct {
	head []byte
	n    int
}

func (r *endless) Read(p []byte) (int, error) {
	clear(p)
	if r.n < len(r.head) {
		p = p[:copy(p, r.head[r.n:])]
	}
	r.n += len(p)
	return len(p), nil
}

func TestTarErrorsOfOthersComeBack(t *testing.T) {
	mine := errors.New("mine")
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	w.put("/f", strings.Repeat("x", 3*chunkSize))
	data := pack(t, tr, "")
	for _, n := range []int{0, 100, 512, 700, 50000, len(data) - 600, len(data)} {
		r := io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(mine))
		if err := tr.ReadTar(context.Background(), r, ""); err != mine {
			t.Errorf("reader fails after %d bytes: %v", n, err)
		}
		if err := tr.WriteTar(context.Background(), &failing{n, mine}, ""); n < len(data) && err != mine {
			t.Errorf("writer fails after %d bytes: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	w.is(tr.ReadTar(ctx, bytes.NewReader(data), ""), context.Canceled)
	w.is(tr.WriteTar(ctx, io.Discard, ""), context.Canceled)

	for _, n := range []int{1, 600, 50000} {
		ctx, cancel := context.WithCancel(context.Background())
		stop := &cancelling{n, cancel}
		w.is(tr.WriteTar(ctx, stop, ""), context.Canceled)
		if stop.left < -chunkSize {
			t.Errorf("%d bytes were written after the cancellation", -stop.left)
		}
		ctx, cancel = context.WithCancel(context.Background())
		w.is(tr.ReadTar(ctx, io.TeeReader(bytes.NewReader(data), &cancelling{n, cancel}), ""), context.Canceled)
	}
}

// cancelling takes what it is given and cancels after some bytes.
type cancelling struct {
	left   int
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left <= 0 {
		c.cancel()
	}
	return len(p), nil
}

type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left < len(p) {
		return f.left, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

func TestWriteTarShowsOneMoment(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	for i := range 20 {
		w.put(fmt.Sprintf("/f%02d", i), strings.Repeat("a", chunkSize+i))
	}
	want := pack(t, tr, "")
	var got bytes.Buffer
	err := tr.WriteTar(context.Background(), &meddler{&got, w, 0}, "")
	w.ok(err)
	if !bytes.Equal(want, got.Bytes()) {
		t.Error("the stream shows changes made while it was written")
	}
}

// meddler changes the tree at every write.
type meddler struct {
	io.Writer
	w world
	n int
}

func (m *meddler) Write(p []byte) (int, error) {
	m.n++
	switch i := m.n % 20; m.n % 3 {
	case 0:
		m.w.put(fmt.Sprintf("/f%02d", i), "short now")
	case 1:
		m.w.ok(m.w.RemoveAll("/", fmt.Sprintf("/f%02d", i)))
	case 2:
		m.w.put(fmt.Sprintf("/new%02d", i), "new")
	}
	return m.Writer.Write(p)
}
