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

	"github.com/slipway-run/slipway/internal/testkit"
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
			for range testkit.Times(8, 40) {
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

// TestFailedWritesLeaveNothing: a full budget must hold, however often and
// wherever one tries.
func TestAbyss(t *testing.T) {
	tr := newTree(t, newBudget(t, 0))
	w := newWorld(t, tr)
	dig := func(name string, depth int) {
		dir := uint64(rootIno)
		for range depth {
			a, err := tr.create(dir, name, attr{mode: fs.ModeDir | 0o755})
			w.ok(err)
			dir = a.ino
		}
	}
	long := strings.Repeat("d", maxName)
	dig(long, maxTarName/maxName+1)
	w.is(tr.WriteTar(context.Background(), io.Discard, ""), syscall.ENAMETOOLONG)
	w.ok(w.RemoveAll("/", long))
	dig("d", 50_000)
	w.ok(w.RemoveAll("/", "d"))
	w.equal(w.list("/"), "dev")
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
