//go:build linux

package volumedir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCopy compares a copy of all kinds of files with what it was made of.
func TestCopy(t *testing.T) {
	needsRoot(t)
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	in := func(name string) string { return filepath.Join(from, name) }
	sparse := func() error {
		f, err := os.Create(in("sparse"))
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("end"), 64<<20)
		return errors.Join(err, f.Close())
	}
	old := []unix.Timespec{{Sec: 1}, {Sec: 1_000_000_000, Nsec: 123456789}}
	for _, err := range []error{
		os.MkdirAll(in("dir/empty"), 0o755),
		os.WriteFile(in("dir/file"), []byte("content"), 0o640),
		os.Link(in("dir/file"), in("linked")),
		os.Symlink("/etc/passwd", in("out")),
		os.Link(in("out"), in("out too")),
		unix.Mkfifo(in("pipe"), 0o600),
		unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))),
		sparse(),
		os.WriteFile(in("setuid"), nil, 0o600),
		os.Lchown(in("out"), 7, 8),
		os.Chown(in("setuid"), 1000, 1001),
		unix.Chmod(in("setuid"), 0o4755),
		unix.Setxattr(in("dir/file"), "user.mark", []byte("x"), 0),
		unix.Setxattr(in("dir/file"), "user.empty", nil, 0),
		unix.Chmod(in("dir"), 0o1777),
		unix.UtimesNanoAt(unix.AT_FDCWD, in("dir/file"), old, 0),
		unix.UtimesNanoAt(unix.AT_FDCWD, in("dir"), old, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Copy(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		n++
		sameFile(t, path, to+strings.TrimPrefix(path, from))
		return err
	})
	if err != nil || n != 11 {
		t.Errorf("%d files, %v", n, err)
	}
	value := make([]byte, 8)
	if size, err := unix.Getxattr(filepath.Join(to, "linked"), "user.mark", value); err != nil || string(value[:size]) != "x" {
		t.Errorf("the attribute is %q, %v", value[:max(size, 0)], err)
	}
	if size, err := unix.Getxattr(filepath.Join(to, "linked"), "user.empty", value); err != nil || size != 0 {
		t.Errorf("the empty attribute has %d bytes, %v", size, err)
	}
	if text, err := os.ReadFile(filepath.Join(to, "dir/file")); string(text) != "content" {
		t.Errorf("the content is %q, %v", text, err)
	}
}

func sameFile(t *testing.T, was, is string) {
	var a, b unix.Stat_t
	if err := errors.Join(unix.Lstat(was, &a), unix.Lstat(is, &b)); err != nil {
		t.Errorf("%s: %v", was, err)
		return
	}
	if a.Mode != b.Mode || a.Uid != b.Uid || a.Gid != b.Gid || a.Mtim != b.Mtim || a.Rdev != b.Rdev || a.Nlink != b.Nlink ||
		a.Mode&unix.S_IFMT == unix.S_IFREG && a.Size != b.Size {
		t.Errorf("%s: %+v became %+v", was, a, b)
	}
	if filepath.Base(is) == "sparse" && b.Blocks*512 > 1<<20 {
		t.Errorf("the holes take %d bytes", b.Blocks*512)
	}
}

func TestCopyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Copy(ctx, t.TempDir(), filepath.Join(t.TempDir(), "to")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCopyKeepsToItsFileSystem leaves out what is mounted below.
func TestCopyKeepsToItsFileSystem(t *testing.T) {
	needsRoot(t)
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	at := filepath.Join(from, "mounted")
	if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(from, "z"), nil, 0o600), unix.Mount("tmpfs", at, "tmpfs", 0, "size=4k")); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	if err := Copy(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(to); err != nil || len(left) != 1 || left[0].Name() != "z" {
		t.Errorf("the copy has %v, %v", left, err)
	}
}
