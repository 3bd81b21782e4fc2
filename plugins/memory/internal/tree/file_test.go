package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

func (w world) open(p string, flag int) *File {
	w.Helper()
	f, err := w.Open("/", p, flag, 0o644)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			w.Error(err)
		}
	})
	return f
}

func TestOpenFilesOutliveTheirNames(t *testing.T) {
	b := newBudget(t, 0)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	empty := b.Used()
	f := w.open("/f", os.O_CREATE|os.O_RDWR)
	_, err := io.WriteString(f, "text")
	w.ok(err)
	w.put("/g", "other")
	w.ok(w.Rename("/", "g", "f"))
	c := tr.Clone() // has no part in what lost its name
	defer c.Release()
	w.ok(w.Remove("/", "f"))

	_, err = f.WriteAt([]byte("s"), 4)
	w.ok(err)
	p := make([]byte, 5)
	_, err = f.ReadAt(p, 0)
	w.ok(err)
	w.equal(string(p), "texts")
	fi, err := f.Stat()
	w.ok(err)
	if in := fi.(info); in.nlink != 0 || in.size != 5 {
		t.Errorf("%+v", in)
	}
	if u := tr.Usage(); u != (Usage{Nodes: 1}) {
		t.Errorf("usage %+v", u)
	}
	if err := audit(b, tr, c); err != nil {
		t.Error(err)
	}
	w.ok(f.Close())
	c.Release()
	if used := b.Used(); used != empty {
		t.Errorf("%d bytes stay after the last close", used-empty)
	}
	_, err = f.Read(p)
	w.is(err, fs.ErrClosed)

	w.ok(w.Mkdir("/", "d", 0o755))
	d := w.open("/d", os.O_RDONLY)
	w.ok(w.Remove("/", "d"))
	if list, err := d.ReadDir(-1); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

func TestWhatWasCutOffStaysAway(t *testing.T) {
	b := newBudget(t, 0)
	for name, clone := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, b)
			w := newWorld(t, tr)
			f := w.open("/f", os.O_CREATE|os.O_RDWR)
			_, err := f.Write([]byte(strings.Repeat("x", 3*chunkSize)))
			w.ok(err)
			if clone {
				c := tr.Clone()
				defer c.Release()
			}
			w.ok(f.Truncate(10))
			_, err = f.WriteAt([]byte("y"), 20)
			w.ok(err)
			w.ok(f.Truncate(2*chunkSize + 1))
			want := strings.Repeat("x", 10) + strings.Repeat("\x00", 10) + "y" + strings.Repeat("\x00", 2*chunkSize-20)
			if got := w.get("/f"); got != want {
				t.Errorf("%q...", got[:100])
			}
		})
	}
}

func TestFailedAppendKeepsThePosition(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	f := w.open("/f", os.O_CREATE|os.O_RDWR|os.O_APPEND)
	_, err := io.WriteString(f, "12345")
	w.ok(err)
	tr.Seal()
	_, err = io.WriteString(f, "6")
	w.is(err, syscall.EROFS)
	if at, err := f.Seek(0, io.SeekCurrent); at != 5 || err != nil {
		t.Error(at, err)
	}
}

func TestReadDirInParts(t *testing.T) {
	w := newWorld(t, newTree(t, newBudget(t, 0)))
	for _, name := range []string{"c", "a", "b"} {
		w.put("/"+name, "")
	}
	d := w.open("/", os.O_RDONLY)
	read := func(n int) string {
		list, err := d.ReadDir(n)
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if err != nil {
			names = append(names, err.Error())
		}
		return strings.Join(names, " ")
	}
	w.equal(read(2), "a b")
	w.ok(w.Remove("/", "c")) // the listing is that of the first call
	w.equal(read(5), "c dev")
	w.equal(read(1), "EOF")
	w.equal(read(-1), "")
	_, err := d.Seek(0, io.SeekStart)
	w.ok(err)
	w.equal(read(0), "a b dev")
	_, err = d.Read(make([]byte, 1))
	w.is(err, syscall.EISDIR)
	_, err = w.open("/a", os.O_RDONLY).ReadDir(-1)
	w.is(err, syscall.ENOTDIR)
}

func TestRenameErrors(t *testing.T) {
	w := newWorld(t, newTree(t, newBudget(t, 0)))
	w.ok(w.MkdirAll("/", "a/b/c", 0o755))
	w.ok(w.MkdirAll("/", "full/x", 0o755))
	w.ok(w.Mkdir("/", "empty", 0o755))
	w.put("/a/f", "f")
	w.put("/g", "g")
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"a", "a/b/c/d", syscall.EINVAL},
		{"a", "a", nil},
		{"a/f", "a", syscall.ENOTEMPTY},
		{"a/b/c", "a", syscall.ENOTEMPTY},
		{"a", "full", syscall.ENOTEMPTY},
		{"a", "g", syscall.ENOTDIR},
		{"g", "empty", syscall.EISDIR},
		{"g", "new/", syscall.ENOTDIR},
		{"g/", "new", syscall.ENOTDIR},
		{"no", "new", syscall.ENOENT},
		{"g", "no/new", syscall.ENOENT},
		{"g", ".", syscall.EBUSY},
		{"a/..", "new", syscall.EBUSY},
		{"a", "empty", nil},
		{"g", "empty/f", nil},
		{"empty/", "back/", nil},
	} {
		if err := w.Rename("/", c.from, c.to); !errors.Is(err, c.want) {
			t.Errorf("%s to %s: got %v, want %v", c.from, c.to, err, c.want)
		}
	}
	w.equal(w.list("/"), "back dev full")
	w.equal(w.get("/back/f"), "g")
}
