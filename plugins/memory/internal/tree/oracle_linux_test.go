package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestAsKernel does the same random operations in a namespace and in a real
// directory through the kernel, and compares every result and the whole state.
// Now and then the tree goes on as its own clone, so that the operations meet
// shared nodes; the originals must not change, and in the end nothing may be
// left of the budget.
func TestAsKernel(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	property(t, 20, func(rt *rapid.T) {
		tmp, err := os.MkdirTemp("", "tree-kernel")
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(tmp) }()
		newTwin(rt, tmp).run()
	})
}

// deep leads to the directory that is played in: ".." can go up a good deal
// before it gets where the two file systems differ.
var deep = strings.Repeat("/up", 24) + "/w"

var epoch = time.Unix(1e9, 123456789)

type twin struct {
	*rapid.T
	budget *Budget
	tree   *Tree
	ns     *Namespace
	real   string
	kept   []*Tree // clones that must not change
	were   []string
	files  []*pair
}

type pair struct {
	ours *File
	real *os.File
}

func newTwin(rt *rapid.T, tmp string) *twin {
	w := &twin{T: rt, budget: NewBudget(0), real: tmp + deep}
	var err error
	if w.tree, err = New(w.budget, Options{}); err != nil {
		rt.Fatal(err)
	}
	w.mount()
	if err := w.ns.MkdirAll("/", deep, 0o755); err != nil {
		rt.Fatal(err)
	}
	if err := os.MkdirAll(w.real, 0o755); err != nil {
		rt.Fatal(err)
	}
	return w
}

func (w *twin) mount() {
	ns, err := NewNamespace(w.tree, nil, NamespaceOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.ns = ns
}

func (w *twin) run() {
	for range rapid.IntRange(1, 40).Draw(w.T, "steps") {
		w.settle()
		w.step()
		w.compare()
	}
	w.closeAll()
	for i, k := range w.kept {
		is, err := digest(k)
		if err != nil {
			w.Fatal(err)
		}
		if d := cmp.Diff(w.were[i], is); d != "" {
			w.Fatalf("an original changed with its clone:\n%s", d)
		}
	}
	if err := audit(w.budget, append(w.kept, w.tree)...); err != nil {
		w.Fatal(err)
	}
	w.tree.Release()
	for _, k := range w.kept {
		k.Release()
	}
	if used := w.budget.Used(); used != 0 {
		w.Fatalf("%d bytes are left of the budget", used)
	}
}

func (w *twin) path(label string) string {
	n := rapid.SampledFrom([]int{1, 1, 1, 2, 2, 3}).Draw(w.T, label+" length")
	names := make([]string, n)
	for i := range names {
		names[i] = rapid.SampledFrom([]string{"a", "b", "c", "a", "b", "c", ".", ".."}).Draw(w.T, label)
	}
	p := strings.Join(names, "/")
	if rapid.IntRange(0, 9).Draw(w.T, label+" slash") == 0 {
		p += "/"
	}
	return p
}

func (w *twin) step() {
	op := rapid.SampledFrom([]string{
		"open", "open", "open", "mkdir", "mkdir", "remove", "rename", "rename", "link", "symlink", "symlink", "readlink",
		"chmod", "chown", "mkdirall", "removeall", "chtimes", "file", "file", "file", "clone", "stat",
	}).Draw(w.T, "op")
	p := w.path("path")
	r := w.real + "/" + p
	perm := fs.FileMode(rapid.SampledFrom([]int{0o700, 0o755, 0o740, 0o777}).Draw(w.T, "perm"))
	var ours, real error
	switch op {
	case "open":
		w.open(p, perm)
		return
	case "file":
		w.file()
		return
	case "clone":
		w.clone()
		return
	case "mkdir":
		ours, real = w.ns.Mkdir(deep, p, perm), os.Mkdir(r, perm)
	case "remove":
		ours, real = w.ns.Remove(deep, p), os.Remove(r)
	case "rename":
		q := w.path("to")
		p += " to " + q
		ours, real = w.ns.Rename(deep, strings.TrimSuffix(p, " to "+q), q), syscall.Rename(r, w.real+"/"+q)
	case "link":
		q := w.path("to")
		ours, real = w.ns.Link(deep, p, q), os.Link(r, w.real+"/"+q)
	case "symlink":
		target := w.path("target")
		ours, real = w.ns.Symlink(deep, target, p), os.Symlink(target, r)
	case "readlink":
		a, err := w.ns.Readlink(deep, p)
		b, rerr := os.Readlink(r)
		if ours, real = err, rerr; a != b {
			w.Fatalf("readlink %s: %q, the kernel says %q", p, a, b)
		}
	case "chmod":
		if rapid.Bool().Draw(w.T, "special") {
			perm |= fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
		}
		ours, real = w.ns.Chmod(deep, p, perm), os.Chmod(r, perm)
	case "chown":
		if os.Geteuid() != 0 {
			return
		}
		ours, real = w.ns.Lchown(deep, p, 1234, -1), os.Lchown(r, 1234, -1)
	case "chtimes":
		at := time.Unix(12345, 678)
		ours, real = w.ns.Chtimes(deep, p, at), os.Chtimes(r, at, at)
	case "mkdirall":
		if strings.Contains(p, "..") || strings.HasSuffix(p, "/") {
			return // package os names the error by how far it looked before
		}
		ours, real = w.ns.MkdirAll(deep, p, perm), os.MkdirAll(r, perm)
	case "removeall":
		if strings.Contains(p, "..") || strings.HasSuffix(p, "/") || strings.HasSuffix(p, ".") {
			return // package os does other things than rm -r there
		}
		ours, real = w.ns.RemoveAll(deep, p), os.RemoveAll(r)
	case "stat":
		a, err := w.ns.Stat(deep, p)
		b, rerr := os.Stat(r)
		if ours, real = err, rerr; err == nil && rerr == nil && a.Mode() != b.Mode() {
			w.Fatalf("stat %s: %v, the kernel says %v", p, a.Mode(), b.Mode())
		}
	}
	w.same(op+" "+p, ours, real)
}

func (w *twin) same(what string, ours, real error) {
	w.Helper()
	var a, b syscall.Errno
	if ours != nil && !errors.As(ours, &a) || real != nil && !errors.As(real, &b) {
		if errors.Is(ours, fs.ErrClosed) == errors.Is(real, fs.ErrClosed) && (ours == io.EOF) == (real == io.EOF) {
			return
		}
		w.Fatalf("%s: %v, the kernel says %v", what, ours, real)
	}
	if a != b {
		w.Fatalf("%s: %v, the kernel says %v", what, ours, real)
	}
}

func (w *twin) open(p string, perm fs.FileMode) {
	flag := rapid.SampledFrom([]int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR}).Draw(w.T, "access")
	for _, f := range []int{os.O_CREATE, os.O_EXCL, os.O_APPEND, os.O_TRUNC} {
		if rapid.Bool().Draw(w.T, "flag") {
			flag |= f
		}
	}
	if flag&os.O_CREATE == 0 {
		flag &^= os.O_EXCL // means nothing alone
	}
	if flag&os.O_TRUNC != 0 && flag&(os.O_RDWR|os.O_WRONLY) == 0 {
		flag &^= os.O_TRUNC // unspecified
	}
	ours, err := w.ns.Open(deep, p, flag, perm)
	real, rerr := os.OpenFile(w.real+"/"+p, flag, perm)
	w.same(fmt.Sprintf("open %s %x", p, flag), err, rerr)
	if err == nil {
		w.files = append(w.files, &pair{ours, real})
	}
}

// file does something with an open file.
func (w *twin) file() {
	if len(w.files) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.files)-1).Draw(w.T, "file")
	f := w.files[i]
	near := rapid.SampledFrom([]int64{0, 1, 10, 4096, chunkSize - 1, chunkSize, chunkSize + 1, 2*chunkSize + 5, 40 * chunkSize})
	var ours, real error
	var n, m int64
	op := rapid.SampledFrom([]string{"write", "write", "read", "seek", "truncate", "writeat", "readat", "stat", "readdir", "close"}).Draw(w.T, "file op")
	switch op {
	case "write", "writeat":
		data := []byte(strings.Repeat(rapid.StringMatching("[a-z]{1,3}").Draw(w.T, "data"), int(near.Draw(w.T, "size")%(3*chunkSize))))
		var a, b int
		if op == "write" {
			a, ours = f.ours.Write(data)
			b, real = f.real.Write(data)
		} else {
			off := near.Draw(w.T, "off")
			a, ours = f.ours.WriteAt(data, off)
			b, real = syscall.Pwrite(int(f.real.Fd()), data, off)
			b = max(b, 0)
		}
		n, m = int64(a), int64(b)
	case "read", "readat":
		if f.ours.at.attr.mode.IsDir() && op == "read" {
			return // EISDIR, or EINVAL where the position is an odd one
		}
		a := make([]byte, near.Draw(w.T, "size")+1) // package os never asks for nothing
		b := make([]byte, len(a))
		var k, l int
		if op == "read" {
			k, ours = f.ours.Read(a)
			l, real = f.real.Read(b)
		} else {
			off := near.Draw(w.T, "off")
			k, ours = f.ours.ReadAt(a, off)
			l, real = f.real.ReadAt(b, off)
		}
		n, m = int64(k), int64(l)
		if string(a) != string(b) {
			w.Fatalf("%s gives other bytes than the kernel", op)
		}
	case "seek":
		off, whence := near.Draw(w.T, "off")-10, rapid.IntRange(0, 2).Draw(w.T, "whence")
		if fi, err := f.ours.Stat(); err != nil || fi.IsDir() {
			return // what positions in a directory mean is the file system's business
		}
		n, ours = f.ours.Seek(off, whence)
		m, real = f.real.Seek(off, whence)
	case "truncate":
		size := near.Draw(w.T, "size")
		if fi, err := f.ours.Stat(); err != nil || fi.IsDir() {
			return
		}
		ours, real = f.ours.Truncate(size), f.real.Truncate(size)
	case "stat":
		a, err := f.ours.Stat()
		b, rerr := f.real.Stat()
		if ours, real = err, rerr; err == nil && rerr == nil {
			as, bs := a.Sys().(*syscall.Stat_t), b.Sys().(*syscall.Stat_t)
			if as.Mode != bs.Mode || os.Geteuid() == 0 && as.Uid != bs.Uid || !a.IsDir() && (as.Size != bs.Size || as.Nlink != bs.Nlink) {
				w.Fatalf("stat: %+v, the kernel says %+v", as, bs)
			}
		}
	case "readdir":
		if fi, err := f.ours.Stat(); err != nil || !fi.IsDir() {
			return
		}
		a, err := f.ours.ReadDir(-1)
		b, rerr := f.real.ReadDir(-1)
		ours, real = err, rerr
		n, m = int64(len(a)), int64(len(b))
	case "close":
		ours, real = f.ours.Close(), f.real.Close()
		w.files = append(w.files[:i], w.files[i+1:]...)
	}
	w.same(op, ours, real)
	if n != m {
		w.Fatalf("%s: %d, the kernel says %d", op, n, m)
	}
}

// clone goes on with a clone, and remembers what the original was like.
func (w *twin) clone() {
	w.closeAll()
	was, err := digest(w.tree)
	if err != nil {
		w.Fatal(err)
	}
	w.kept, w.were = append(w.kept, w.tree), append(w.were, was)
	w.tree = w.tree.Clone()
	w.mount()
}

func (w *twin) closeAll() {
	for _, f := range w.files {
		if err := errors.Join(f.ours.Close(), f.real.Close()); err != nil {
			w.Fatal(err)
		}
	}
	w.files = nil
}

// state is what can be compared of a node. Same is the first path of the inode.
type state struct {
	Mode     fs.FileMode
	Size     int64
	Links    uint64
	UID, GID uint32
	Touched  bool
	Text     string
	Same     string
}

// settle gives everything one time, so that what an operation touches shows.
func (w *twin) settle() {
	w.walk(func(p string, ours, _ fs.FileInfo) {
		if ours.Mode().Type() == fs.ModeSymlink {
			return
		}
		at := epoch
		if err := errors.Join(w.ns.Chtimes("/", deep+p, at), os.Chtimes(w.real+p, at, at)); err != nil {
			w.Fatal(err)
		}
	})
}

func (w *twin) compare() {
	a, b := make(map[string]state), make(map[string]state)
	first, rfirst := make(map[uint64]string), make(map[uint64]string)
	w.walk(func(p string, ours, real fs.FileInfo) {
		x, y := newState(p, ours, first), newState(p, real, rfirst)
		switch ours.Mode().Type() {
		case 0:
			x.Text, y.Text = w.read(p)
		case fs.ModeSymlink:
			x.Text, _ = w.ns.Readlink("/", deep+p)
			y.Text, _ = os.Readlink(w.real + p)
		}
		a[p], b[p] = x, y
	})
	if d := cmp.Diff(b, a); d != "" {
		w.Fatalf("the kernel has (-) and the tree has (+):\n%s", d)
	}
	if err := audit(w.budget, append(w.kept, w.tree)...); err != nil {
		w.Fatal(err)
	}
}

func newState(p string, fi fs.FileInfo, first map[uint64]string) state {
	st := fi.Sys().(*syscall.Stat_t)
	s := state{Mode: fi.Mode()}
	if os.Geteuid() == 0 { // others own what they make
		s.UID, s.GID = st.Uid, st.Gid
	}
	if _, ok := first[st.Ino]; !ok {
		first[st.Ino] = p
	}
	s.Same = first[st.Ino]
	if !fi.IsDir() {
		s.Size, s.Links = fi.Size(), uint64(st.Nlink)
	}
	if fi.Mode().Type() != fs.ModeSymlink {
		s.Touched = !fi.ModTime().Equal(epoch)
	}
	return s
}

func (w *twin) read(p string) (ours, real string) {
	f, err := w.ns.Open("/", deep+p, os.O_RDONLY, 0)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	x, err := io.ReadAll(f)
	if err != nil {
		w.Fatal(err)
	}
	y, err := os.ReadFile(w.real + p)
	if err != nil {
		w.Fatal(err)
	}
	return short(x), short(y)
}

// short keeps differences printable.
func short(b []byte) string {
	if len(b) < 100 {
		return string(b)
	}
	var sum uint64
	for _, c := range b {
		sum = sum*1099511628211 + uint64(c)
	}
	return fmt.Sprintf("%d bytes, %x", len(b), sum)
}

// walk calls f for all that is in either file system.
func (w *twin) walk(f func(p string, ours, real fs.FileInfo)) {
	var names func(dir string)
	names = func(dir string) {
		ours, err := w.ns.ReadDir("/", deep+dir)
		if err != nil {
			w.Fatal(err)
		}
		real, err := os.ReadDir(w.real + dir)
		if err != nil {
			w.Fatal(err)
		}
		var a, b []string
		for _, e := range ours {
			a = append(a, e.Name())
		}
		for _, e := range real {
			b = append(b, e.Name())
		}
		if d := cmp.Diff(b, a); d != "" {
			w.Fatalf("in %q the kernel has (-) and the tree has (+):\n%s", dir, d)
		}
		for _, e := range ours {
			p := dir + "/" + e.Name()
			x, err := w.ns.Lstat("/", deep+p)
			if err != nil {
				w.Fatal(err)
			}
			y, err := os.Lstat(filepath.Clean(w.real + p))
			if err != nil {
				w.Fatal(err)
			}
			f(p, x, y)
			if e.IsDir() {
				names(p)
			}
		}
	}
	names("")
}
