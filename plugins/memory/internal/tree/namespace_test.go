package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world is a namespace with helpers that fail the test.
type world struct {
	*testing.T
	*Namespace
}

func newWorld(t *testing.T, root *Tree, mounts ...Mount) world {
	t.Helper()
	n, err := NewNamespace(root, mounts, NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return world{t, n}
}

func (w world) put(p, text string) {
	w.Helper()
	f, err := w.Open("/", p, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		w.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.Fatal(err)
	}
}

func (w world) get(p string) string {
	w.Helper()
	f, err := w.Open("/", p, os.O_RDONLY, 0)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(f)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func (w world) list(p string) string {
	w.Helper()
	all, err := w.ReadDir("/", p)
	if err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func (w world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("got %v, want %v", err, want)
	}
}

func (w world) equal(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("got %q, want %q", got, want)
	}
}

func TestMountsInAnyOrder(t *testing.T) {
	b := newBudget(t, 0)
	root, a, ab, abc := newTree(t, b), newTree(t, b), newTree(t, b), newTree(t, b)
	w := newWorld(t, root, Mount{Path: "/a/b/x/c", Tree: abc}, Mount{Path: "/a/b/", Tree: ab}, Mount{Path: "/a", Tree: a})
	w.put("/a/b/x/c/deep", "abc")
	w.put("/a/b/mid", "ab")
	w.put("/a/top", "a")
	w.put("/root", "r")

	for tr, want := range map[*Tree]string{root: "a root", a: "b top", ab: "mid x", abc: "deep"} {
		list, err := tr.List("")
		w.ok(err)
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		w.equal(strings.Join(names, " "), want)
	}
	w.equal(w.get("a/b/x/c/../../mid"), "ab")
	w.equal(w.get("/a/b/x/c/../../../../root"), "r")
	w.equal(w.list("/"), "a dev root")
	w.equal(w.list("/a/b"), "mid x")
}

func TestMountPointsInWhatCannotBeWritten(t *testing.T) {
	b := newBudget(t, 0)
	root, in, out := newTree(t, b), newTree(t, b), newTree(t, b)
	w := newWorld(t, in)
	w.put("/file", "in")
	in.Seal()
	w = newWorld(t, root, Mount{Path: "/in", Tree: in}, Mount{Path: "/in/far/out", Tree: out})
	w.equal(w.list("/in"), "far file")
	w.equal(w.list("/in/far"), "out")
	w.put("/in/far/out/x", "1")
	w.equal(w.get("/in/far/out/../../file"), "in")
	w.is(w.Mkdir("/in/far", "new", 0o755), syscall.EROFS)
	w.is(w.Mkdir("/", "/in/far", 0o755), fs.ErrExist)
	w.is(w.Remove("/", "/in/far"), syscall.EBUSY)
	w.is(w.Chmod("/", "/in/far", 0o700), syscall.EROFS)
	fi, err := w.Stat("/", "/in/far")
	w.ok(err)
	if !fi.IsDir() || fi.Mode().Perm() != 0o755 || fi.Name() != "far" {
		t.Errorf("virtual mount point: %v", fi)
	}
	if _, err := in.Stat("far"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a sealed tree was changed: %v", err)
	}
}

func TestReadOnlyMount(t *testing.T) {
	b := newBudget(t, 0)
	root, data, inner := newTree(t, b), newTree(t, b), newTree(t, b)
	w := newWorld(t, data)
	w.put("/f", "data")
	w.ok(w.Mkdir("/", "d", 0o755))
	w = newWorld(t, root, Mount{Path: "/ro", Tree: data, ReadOnly: true}, Mount{Path: "/ro/d/rw", Tree: inner})
	w.put("/ro/d/rw/x", "written") // nested and writable: stays as given
	w.equal(w.get("/ro/f"), "data")
	_, err := w.Open("/ro", "f", os.O_RDWR, 0)
	w.is(err, syscall.EROFS)
	_, err = w.Open("/ro", "new", os.O_RDWR|os.O_CREATE, 0o644)
	w.is(err, syscall.EROFS)
	f, err := w.Open("/ro", "f", os.O_RDONLY|os.O_CREATE, 0o644)
	w.ok(err)
	w.ok(f.Close())
	for _, err := range []error{
		w.Remove("/", "/ro/f"), w.Mkdir("/ro", "n", 0o755), w.MkdirAll("/ro", "n/m", 0o755), w.Chmod("/ro", "f", 0o600),
		w.Lchown("/ro", "f", 1, 1), w.Chtimes("/ro", "f", time.Now()), w.Symlink("/ro", "x", "l"),
		w.Link("/ro", "f", "g"), w.Rename("/ro", "f", "g"), w.RemoveAll("/ro", "f"),
	} {
		w.is(err, syscall.EROFS)
	}
	w.is(w.Mkdir("/", "/ro/f", 0o755), fs.ErrExist)
	w.is(w.Rename("/", "/ro/f", "/f"), syscall.EXDEV)
	w.is(w.Link("/", "/ro/f", "/f"), syscall.EXDEV)
	if n, err := NewNamespace(root, nil, NamespaceOptions{ReadOnlyRoot: true}); err != nil || !errors.Is(n.Mkdir("/", "x", 0o755), syscall.EROFS) {
		t.Error("a read-only root can be written")
	}
}

func TestMountPointsStay(t *testing.T) {
	b := newBudget(t, 0)
	root, v := newTree(t, b), newTree(t, b)
	w := newWorld(t, root, Mount{Path: "/a/m", Tree: v})
	w.put("/a/m/x", "x")
	w.put("/a/y", "y")
	w.ok(w.Mkdir("/", "z", 0o755))
	w.is(w.Rename("/", "/a/m", "/n"), syscall.EBUSY)
	w.is(w.Rename("/", "/a/m/x", "/n"), syscall.EXDEV)
	w.is(w.Rename("/", "/a", "/n"), syscall.EBUSY)
	w.is(w.Rename("/", "/z", "/a"), syscall.EBUSY)
	w.is(w.Remove("/", "/a/m"), syscall.EBUSY)
	w.is(w.Remove("/", "/"), syscall.EBUSY)
	w.is(w.RemoveAll("/", "/a"), syscall.EBUSY)
	w.equal(w.list("/a"), "m")
	w.equal(w.list("/a/m"), "")
	w.is(w.RemoveAll("/", "/dev"), syscall.EBUSY)

	// Another container that shares the root's tree takes the point away.
	other := newWorld(t, root)
	w.ok(other.RemoveAll("/", "/a"))
	w.ok(other.Symlink("/", "/etc", "/a"))
	w.put("/a/m/x", "still here")
	w.equal(w.get("/a/m/x"), "still here")
	w.equal(w.list("/"), "a dev z")
}

func TestMountThroughSymlink(t *testing.T) {
	b := newBudget(t, 0)
	root, v, sub := newTree(t, b), newTree(t, b), newTree(t, b)
	w := newWorld(t, root)
	w.ok(w.Mkdir("/", "etc", 0o755))
	w.ok(w.Symlink("/", "/etc", "mnt"))
	w.ok(w.Symlink("/", "../../../run/deep", "gone"))
	w = newWorld(t, root, Mount{Path: "/mnt", Tree: v}, Mount{Path: "/gone/sub", Tree: sub})
	w.put("/mnt/x", "v")
	w.equal(w.get("/etc/x"), "v")
	w.put("/run/deep/sub/y", "sub")
	w.equal(w.get("/gone/sub/y"), "sub")
	w.equal(w.list("/"), "dev etc gone mnt run")
}

func TestMountRefused(t *testing.T) {
	b := newBudget(t, 0)
	root, v := newTree(t, b), newTree(t, b)
	w := newWorld(t, root)
	w.put("/file", "")
	w.ok(w.Symlink("/", "loop", "loop"))
	for _, c := range []struct {
		paths string
		want  error
	}{
		{"a/b", syscall.EINVAL},
		{"", syscall.EINVAL},
		{"/", syscall.EINVAL},
		{"/x/..", syscall.EINVAL},
		{"/a /a", syscall.EINVAL},
		{"/a /b/../a/", syscall.EINVAL},
		{"/file", syscall.ENOTDIR},
		{"/file/below", syscall.ENOTDIR},
		{"/loop/x", syscall.ELOOP},
		{"/" + strings.Repeat("n", 256), syscall.ENAMETOOLONG},
	} {
		var mounts []Mount
		for _, p := range strings.Split(c.paths, " ") {
			mounts = append(mounts, Mount{Path: p, Tree: v})
		}
		_, err := NewNamespace(root, mounts, NamespaceOptions{})
		var pe *fs.PathError
		if !errors.As(err, &pe) || !errors.Is(err, c.want) {
			t.Errorf("%q: got %v, want %v", c.paths, err, c.want)
		}
	}
}

func TestNull(t *testing.T) {
	b := newBudget(t, 0)
	root, dev := newTree(t, b), newTree(t, b)
	for name, w := range map[string]world{
		"virtual": newWorld(t, root),
		"mounted": newWorld(t, root, Mount{Path: "/dev", Tree: dev}),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := w.Open("/", "/dev/null", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
			w.ok(err)
			if n, err := f.Write([]byte("gone")); n != 4 || err != nil {
				t.Error(n, err)
			}
			if n, err := f.Read(make([]byte, 4)); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
			if off, err := f.Seek(0, io.SeekEnd); off != 0 || err != nil {
				t.Error(off, err)
			}
			fi, err := f.Stat()
			w.ok(err)
			if fi.Mode() != fs.ModeDevice|fs.ModeCharDevice|0o666 {
				t.Error(fi.Mode())
			}
			w.ok(f.Close())
			w.is(f.Close(), fs.ErrClosed)
			w.equal(w.list("/dev"), "null")
			w.is(w.Remove("/", "/dev/null"), syscall.EBUSY)
			_, err = w.Open("/", "/dev/null/x", os.O_RDONLY, 0)
			w.is(err, syscall.ENOTDIR)
		})
	}
	if _, err := root.Stat("dev/null"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/dev/null left a trace in the root: %v", err)
	}
}

func TestSymlinksStayInside(t *testing.T) {
	b := newBudget(t, 0)
	root, v := newTree(t, b), newTree(t, b)
	w := newWorld(t, root, Mount{Path: "/v", Tree: v})
	w.ok(w.Mkdir("/", "etc", 0o755))
	w.put("/etc/passwd", "container's")
	for link, target := range map[string]string{
		"/v/abs": "/etc/passwd", "/v/up": "../../../../../../etc/passwd", "/v/dir": "/etc", "/v/dot": ".",
		"/v/l1": "l2", "/v/l2": "l1", "/v/slash": "/etc/passwd/",
	} {
		w.ok(w.Symlink("/", target, link))
	}
	w.equal(w.get("/v/abs"), "container's")
	w.equal(w.get("/v/up"), "container's")
	w.equal(w.get("/v/dot/dot/./dir/../etc/passwd"), "container's")
	w.equal(w.get("/../../etc/passwd"), "container's")
	_, err := w.Stat("/", "/v/l1")
	w.is(err, syscall.ELOOP)
	_, err = w.Stat("/", "/v/slash")
	w.is(err, syscall.ENOTDIR)
	// Seen from its own tree the absolute one leads to nothing.
	_, err = v.OpenFile("abs")
	w.is(err, fs.ErrNotExist)
	for _, p := range []string{"..", "../x", "a/../../x", "/.."} {
		_, err = v.Stat(p)
		w.is(err, syscall.EINVAL)
	}

	// 40 hops are fine, 41 are not.
	w.put("/h0", "end")
	for i := 1; i <= 41; i++ {
		w.ok(w.Symlink("/", "h"+strconv.Itoa(i-1), "/h"+strconv.Itoa(i)))
	}
	w.equal(w.get("/h40"), "end")
	_, err = w.Open("/", "/h41", os.O_RDONLY, 0)
	w.is(err, syscall.ELOOP)
}

func TestLimitsOfPaths(t *testing.T) {
	w := newWorld(t, newTree(t, newBudget(t, 0)))
	long := strings.Repeat("n", 255)
	w.put("/"+long, "x")
	w.is(w.Mkdir("/", long+"n", 0o755), syscall.ENAMETOOLONG)
	w.is(w.Mkdir("/", strings.Repeat("./", 2048), 0o755), syscall.ENAMETOOLONG)
	w.is(w.Symlink("/", strings.Repeat("t", 4096), "l"), syscall.ENAMETOOLONG)
	w.is(w.Symlink("/", "", "l"), fs.ErrNotExist)
	w.is(w.Mkdir("/", "", 0o755), fs.ErrNotExist)
	w.is(w.Mkdir("/", "nul\x00", 0o755), syscall.EINVAL)
	_, err := w.Stat("/not/there", "x")
	w.is(err, fs.ErrNotExist)
	for _, name := range []string{"\xff\xfe", "a\nb", "\t", "-rf", " x ", "~", "x.", `a\b`, "é", "e\u0301", "Case", "case"} {
		w.put("/d"+name, name)
		w.equal(w.get("/d"+name), name)
	}
	// 500 deep by steps, each with a short path; RemoveAll takes it all.
	p := ""
	for range 500 {
		p += "/d"
		w.ok(w.Mkdir("/", p, 0o755))
	}
	w.ok(w.RemoveAll("/", "/d"))
}

func TestErrorsCarryThePath(t *testing.T) {
	w := newWorld(t, newTree(t, newBudget(t, 0)))
	_, err := w.Open("/", "no/such", os.O_RDONLY, 0)
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Path != "no/such" || pe.Op != "open" {
		t.Errorf("%#v", err)
	}
	var le *os.LinkError
	if err := w.Rename("/", "no", "where"); !errors.As(err, &le) || le.Old != "no" || le.New != "where" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%#v", err)
	}
}

func TestSealStopsOpenFiles(t *testing.T) {
	root := newTree(t, newBudget(t, 0))
	w := newWorld(t, root)
	w.put("/f", "before")
	f, err := w.Open("/", "f", os.O_RDWR, 0)
	w.ok(err)
	defer func() { _ = f.Close() }()
	root.Seal()
	root.Seal()
	_, err = f.Write([]byte("x"))
	w.is(err, syscall.EROFS)
	w.is(f.Truncate(0), syscall.EROFS)
	w.is(f.Chmod(0), syscall.EROFS)
	_, err = w.Open("/", "f", os.O_WRONLY, 0)
	w.is(err, syscall.EROFS)
	_, err = w.Open("/", "new", os.O_CREATE, 0o644)
	w.is(err, syscall.EROFS)
	w.equal(w.get("/f"), "before")
	c := root.Clone()
	defer c.Release()
	if c.Sealed() || !root.Sealed() {
		t.Error("a clone of a sealed tree must be open")
	}
	newWorld(t, c).put("/f", "after")
	w.equal(w.get("/f"), "before")
}

func TestReleasedTree(t *testing.T) {
	b := newBudget(t, 0)
	root := newTree(t, b)
	w := newWorld(t, root)
	w.put("/f", "x")
	f, err := w.Open("/", "f", os.O_RDWR, 0)
	w.ok(err)
	w.ok(w.Remove("/", "f"))
	root.Release()
	root.Release()
	if b.Used() != 0 {
		t.Errorf("%d bytes left", b.Used())
	}
	_, err = f.Read(make([]byte, 1))
	w.is(err, fs.ErrClosed)
	_, err = f.Write([]byte("x"))
	w.is(err, fs.ErrClosed)
	_, err = w.Stat("/", "f")
	w.is(err, fs.ErrClosed)
	w.is(w.Mkdir("/", "d", 0o755), fs.ErrClosed)
	c := root.Clone()
	_, err = c.Stat("")
	w.is(err, fs.ErrClosed)
	w.ok(f.Close())
}

func TestInodeNumbersSayWhatIsTheSame(t *testing.T) {
	b := newBudget(t, 0)
	root, v := newTree(t, b), newTree(t, b)
	w := newWorld(t, root, Mount{Path: "/v1", Tree: v}, Mount{Path: "/v2", Tree: v, ReadOnly: true})
	w.put("/f", "")
	w.ok(w.Link("/", "f", "g"))
	w.put("/v1/f", "")
	id := func(p string) [2]uint64 {
		fi, err := w.Lstat("/", p)
		w.ok(err)
		return [2]uint64{fi.(info).dev, fi.(info).ino}
	}
	if id("/f") != id("/g") || id("/v1/f") != id("/v2/f") {
		t.Error("one file looks like two")
	}
	if id("/f") == id("/v1/f") || id("/") == id("/v1") || id("/dev") == id("/dev/null") {
		t.Error("two files look like one")
	}
}
