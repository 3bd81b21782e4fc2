package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestBudgetIsExact(t *testing.T) {
	property(t, 5, func(rt *rapid.T) {
		b := NewBudget(rapid.Int64Range(2000, 600_000).Draw(rt, "limit"))
		first, err := New(b, Options{})
		if err != nil {
			rt.Fatal(err)
		}
		family := []*Tree{first}
		var files []*File
		defer func() {
			for _, f := range files {
				_ = f.Close()
			}
		}()
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(family)-1).Draw(rt, "tree")
			tr := family[i]
			before := make([]string, len(family))
			for j, other := range family {
				if j != i {
					before[j] = mustDigest(rt, other)
				}
			}
			ns, err := NewNamespace(tr, nil, NamespaceOptions{})
			if err != nil {
				rt.Fatal(err)
			}
			path := func(label string) string {
				return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 3).Draw(rt, label), "/")
			}
			p := path("path")
			switch rapid.IntRange(0, 11).Draw(rt, "op") {
			case 0, 1, 2:
				f, err := ns.Open("/", p, os.O_CREATE|os.O_RDWR, 0o644)
				if err != nil {
					break
				}
				off := rapid.SampledFrom([]int64{0, 100, chunkSize - 1, 3 * chunkSize, 40 * chunkSize, 33 << 30}).Draw(rt, "off")
				_, err = f.WriteAt(make([]byte, rapid.IntRange(0, 2*chunkSize).Draw(rt, "size")), off)
				if err != nil && !errors.Is(err, syscall.ENOSPC) {
					rt.Fatal(err)
				}
				if rapid.Bool().Draw(rt, "keep open") {
					files = append(files, f)
					break
				}
				_ = f.Close()
			case 3, 4:
				_ = ns.MkdirAll("/", p, 0o755)
			case 5:
				_ = ns.RemoveAll("/", p)
			case 6:
				_ = ns.Rename("/", p, path("to"))
			case 7:
				_ = ns.Link("/", p, path("to"))
			case 8:
				_ = ns.Symlink("/", strings.Repeat("t", rapid.IntRange(1, 1000).Draw(rt, "target")), p)
			case 9:
				family = append(family, tr.Clone())
				before = append(before, "")
			case 10:
				if f, err := ns.Open("/", p, os.O_RDWR, 0); err == nil {
					_ = f.Truncate(rapid.Int64Range(0, 3*chunkSize).Draw(rt, "length"))
					_ = f.Close()
				}
			case 11:
				var buf bytes.Buffer
				if err := tr.WriteTar(context.Background(), &limited{&buf, 1 << 20}, ""); err == nil {
					_ = tr.ReadTar(context.Background(), &buf, p)
				}
			}
			for j, was := range before {
				if j != i && was != "" && mustDigest(rt, family[j]) != was {
					rt.Fatalf("tree %d changed with tree %d", j, i)
				}
			}
			if err := audit(b, family...); err != nil {
				rt.Fatal(err)
			}
			if len(family) > 4 {
				family[0].Release()
				family = family[1:]
				if err := audit(b, family...); err != nil {
					rt.Fatal(err)
				}
			}
		}
		for _, tr := range family {
			tr.Release()
		}
		if used := b.Used(); used != 0 {
			rt.Fatalf("%d bytes are left", used)
		}
	})
}

func mustDigest(rt *rapid.T, tr *Tree) string {
	// Only names and attributes: holes of gigabytes are among the files.
	var out strings.Builder
	var walk func(p string)
	walk = func(p string) {
		list, err := tr.List(p)
		if err != nil {
			rt.Fatal(err)
		}
		for _, e := range list {
			fi, _ := e.Info()
			in := fi.(info)
			fmt.Fprintf(&out, "%s/%s %d %v %d %d %v\n", p, e.Name(), in.ino, in.mode, in.nlink, in.size, in.mtime)
			if e.IsDir() {
				walk(p + "/" + e.Name())
			}
		}
	}
	walk("")
	return out.String() + "."
}

type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.w.Write(p)
}

func TestSharedContentIsChargedOnce(t *testing.T) {
	b := newBudget(t, 0)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	w.put("/f", strings.Repeat("x", 100*chunkSize))
	w.ok(w.Mkdir("/", "d", 0o755))
	whole := b.Used()
	c := tr.Clone()
	if b.Used() != whole {
		t.Errorf("a clone costs %d bytes", b.Used()-whole)
	}
	f, err := newWorld(t, c).Open("/", "f", os.O_RDWR, 0)
	w.ok(err)
	_, err = f.WriteAt([]byte("y"), 50*chunkSize)
	w.ok(err)
	if more := b.Used() - whole; more < chunkSize || more > chunkSize+chunkCost+nodeCost+4*pageCost {
		t.Errorf("a byte in a clone costs %d bytes", more)
	}
	w.ok(f.Close())
	if got := w.get("/f"); got != strings.Repeat("x", 100*chunkSize) {
		t.Error("the original changed")
	}
	tr.Release()
	if got := b.Used(); got != whole {
		t.Errorf("the clone alone costs %d bytes, not %d", got, whole)
	}
	c.Release()
}

func TestFullBudget(t *testing.T) {
	b := newBudget(t, 10*chunkSize)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	f, err := w.Open("/", "f", os.O_CREATE|os.O_RDWR, 0o644)
	w.ok(err)
	defer func() { _ = f.Close() }()
	n, err := f.Write(make([]byte, 20*chunkSize))
	w.is(err, syscall.ENOSPC)
	if fi, _ := f.Stat(); fi.Size() != int64(n) || n < 9*chunkSize {
		t.Errorf("%d bytes written, size %d", n, fi.Size())
	}
	c := tr.Clone()
	defer c.Release()
	_, err = f.WriteAt([]byte("x"), 0) // needs a chunk of its own now
	w.is(err, syscall.ENOSPC)
	w.ok(w.Remove("/", "f")) // but removing works however full it is
	other := newWorld(t, c)
	w.ok(other.Remove("/", "f"))
	w.ok(f.Close())
	w.put("/g", strings.Repeat("x", 9*chunkSize)) // and then there is room
	w.ok(w.Remove("/", "g"))

	one := newBudget(t, 10)
	if _, err := New(one, Options{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

func TestRenameNeedsNoRoomToReplace(t *testing.T) {
	b := newBudget(t, 4000)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	w.put("/a", "new")
	w.put("/b", "old")
	c := tr.Clone() // so that what b gives up does not come back
	defer c.Release()
	rest := b.Limit() - b.Used()
	w.ok(b.take(rest))
	defer b.give(rest)
	w.ok(w.Rename("/", "/a", "/b"))
	w.equal(w.get("/b"), "new")
}

func TestFailedWritesLeaveNothing(t *testing.T) {
	b := newBudget(t, 8000)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	f, err := w.Open("/", "f", os.O_CREATE|os.O_RDWR, 0o644)
	w.ok(err)
	defer func() { _ = f.Close() }()
	rest := b.Limit() - b.Used()
	w.ok(b.take(rest))
	defer b.give(rest)
	full := b.Used()
	for i := range int64(1000) {
		if _, err := f.WriteAt([]byte("x"), (i+1)<<32); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		w.is(w.Mkdir("/", fmt.Sprint(i, strings.Repeat("d", 100)), 0o755), syscall.ENOSPC)
		w.is(w.Symlink("/", strings.Repeat("d", 200), fmt.Sprint(i)), syscall.ENOSPC)
	}
	if used := b.Used(); used != full {
		t.Errorf("failed writes cost %d bytes", used-full)
	}
}
