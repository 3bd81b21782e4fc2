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
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-run/slipway/internal/testkit"
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
	for range testkit.Times(150, 500) { // longer than a header has room for
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

// v7 is an entry as Unix V7 wrote them: no magic, and a directory is known by
// its slash.
// endless gives a header and then zeros for ever.
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
