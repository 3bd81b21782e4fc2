package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func readAll(tr *Tree, p string) ([]byte, error) { return fs.ReadFile(treeFS{tr}, p) }

// namesOf counts the names by which each inode is known, the root's own being
// one.
func namesOf(t testing.TB, tr *Tree) map[uint64]int {
	t.Helper()
	count := map[uint64]int{rootIno: 1}
	var walk func(p string)
	walk = func(p string) {
		list, err := tr.List(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			fi, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			count[fi.(info).ino]++
			if e.IsDir() {
				walk(p + "/" + e.Name())
			}
		}
	}
	walk("")
	return count
}

// TestBudgetIsExact changes a family of clones at random under a tight limit,
// so that many operations fail halfway, and recomputes after each of them from
// the trees what they must have charged. Trees that were not the target of an
// operation must not change.
func TestBudgetIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
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
	if more := b.Used() - whole; more < chunkSize || more > chunkSize+chunkCost+nodeCost {
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
	for i := 0; b.take(1) == nil; i++ {
		defer b.give(1)
	}
	w.ok(w.Rename("/", "/a", "/b"))
	w.equal(w.get("/b"), "new")
}

func TestSparseFilesCostWhatTheyHold(t *testing.T) {
	b := newBudget(t, 1<<20)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	f, err := w.Open("/", "f", os.O_CREATE|os.O_RDWR, 0o644)
	w.ok(err)
	defer func() { _ = f.Close() }()
	w.ok(f.Truncate(maxFileSize))
	_, err = f.WriteAt([]byte("end"), maxFileSize-3)
	w.ok(err)
	w.is(f.Truncate(maxFileSize+1), syscall.EFBIG)
	n, err := f.WriteAt([]byte("over"), maxFileSize-2)
	w.is(err, syscall.EFBIG)
	if n != 2 {
		t.Errorf("%d bytes written up to the largest size", n)
	}
	buf := make([]byte, 8)
	_, err = f.ReadAt(buf, maxFileSize-8)
	w.ok(err)
	w.equal(string(buf), "\x00\x00\x00\x00\x00eov")
	if u := tr.Usage(); u != (Usage{Bytes: maxFileSize, Nodes: 2}) {
		t.Errorf("usage %+v", u)
	}
	w.ok(f.Truncate(3))
	w.ok(f.Truncate(10)) // what was there must not come back
	_, err = f.ReadAt(buf, 0)
	w.ok(err)
	w.equal(string(buf), strings.Repeat("\x00", 8))
}

// TestAtOnce lets many goroutines work in one tree, its clones and streams of
// both. What they make of it is checked by audit; the race detector does the
// rest.
func TestAtOnce(t *testing.T) {
	b := newBudget(t, 64<<20)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	for i := range 50 {
		w.put(fmt.Sprintf("/f%d", i), strings.Repeat("x", i*200))
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 40 {
				if err := disturb(ctx, tr, w.Namespace, rnd, g); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := audit(b, tr); err != nil {
		t.Error(err)
	}
	if n := len(tr.opened) + len(tr.orphans); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

// disturb does something to a tree that others disturb as well.
func disturb(ctx context.Context, tr *Tree, ns *Namespace, rnd *rand.Rand, g int) error {
	name := fmt.Sprintf("f%d", rnd.IntN(60))
	switch rnd.IntN(8) {
	case 0: // a clone is whole, and goes its own way
		c := tr.Clone()
		defer c.Release()
		own, err := NewNamespace(c, nil, NamespaceOptions{})
		if err != nil {
			return err
		}
		if err := own.RemoveAll("/", name); err != nil {
			return err
		}
		if err := own.MkdirAll("/", "own/dir", 0o755); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		c.Seal()
		return c.WriteTar(ctx, io.Discard, "")
	case 1:
		var buf bytes.Buffer
		if err := tr.WriteTar(ctx, &buf, ""); err != nil {
			return err
		}
		dir := fmt.Sprintf("in%d", g)
		if err := tr.ReadTar(ctx, &buf, dir); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		return ns.RemoveAll("/", dir)
	case 2:
		err := ns.Remove("/", name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	case 3:
		err := ns.Rename("/", name, fmt.Sprintf("f%d", rnd.IntN(60)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	f, err := ns.Open("/", name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(bytes.Repeat([]byte{byte(g)}, rnd.IntN(5000))); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	if _, err := f.ReadAt(make([]byte, 10000), 0); err != nil && err != io.EOF {
		return err
	}
	return f.Truncate(int64(rnd.IntN(20_000)))
}

// TestAppendIsAtomic: lines that many writers append are never mixed.
func TestAppendIsAtomic(t *testing.T) {
	w := newWorld(t, newTree(t, newBudget(t, 0)))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			f, err := w.Open("/", "log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = f.Close() }()
			for range 100 {
				if _, err := fmt.Fprintf(f, "%s\n", strings.Repeat(string(rune('a'+g)), 700)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	count := make(map[string]int)
	for line := range strings.Lines(w.get("/log")) {
		count[line]++
	}
	if len(count) != 8 {
		t.Fatalf("%d different lines", len(count))
	}
	for line, n := range count {
		if n != 100 {
			t.Errorf("%q... %d times", line[:1], n)
		}
	}
}

func TestManyNames(t *testing.T) {
	b := newBudget(t, 0)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	for i := range 20_000 {
		w.ok(w.Symlink("/", "x", fmt.Sprintf("/n%05d", i)))
	}
	deepest := 0
	var depth func(n *name, d int)
	depth = func(n *name, d int) {
		if n == nil {
			deepest = max(deepest, d)
			return
		}
		depth(n.left, d+1)
		depth(n.right, d+1)
	}
	depth(tr.inodes.get(rootIno).names, 0)
	if deepest > 60 { // 2·ln(20,000) is 20 on average; sorted input must not matter
		t.Errorf("names are %d deep", deepest)
	}
	if err := audit(b, tr); err != nil {
		t.Error(err)
	}
}
