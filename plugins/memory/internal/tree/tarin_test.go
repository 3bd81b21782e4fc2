package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

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
		{name: "owner out of range", ents: []ent{{Header: tar.Header{Typeflag: tar.TypeReg, Name: "z", Uid: -1, Format: tar.FormatGNU}}}, want: syscall.EINVAL},
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
	for p, want := range map[string]error{"../x": syscall.EINVAL, "f": syscall.ENOTDIR, "f/x": syscall.ENOTDIR, "s/x": ErrUnsafe, "nul\x00": syscall.EINVAL, strings.Repeat("n", 256): syscall.ENAMETOOLONG} {
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
	short := archive(t, reg("f", "1"))
	for name, data := range map[string][]byte{
		"before the marker, after padding": short[:1024], "empty": nil, "one byte": {1}, "in a header": whole[:700], "in a file": whole[:100000], "before the marker": whole[:end],
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
