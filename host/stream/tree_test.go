package stream_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// snapshot is all that an archive keeps of what is below dir, by path. Names of one file have the same Twin.
func snapshot(t testing.TB, dir string) map[string]entry {
	t.Helper()
	twins := make(map[uint64]string)
	tree := make(map[string]entry)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e := entry{Mode: info.Mode(), Time: info.ModTime().UTC()}
		switch info.Mode().Type() {
		case 0:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			e.Content = fmt.Sprintf("%d bytes %x", len(b), sha256.Sum256(b))
		case fs.ModeSymlink:
			if e.Content, err = os.Readlink(path); err != nil {
				return err
			}
			e.Time = time.Time{} // not restored
		}
		if st := info.Sys().(*syscall.Stat_t); st.Nlink > 1 && !info.IsDir() {
			if twins[st.Ino] == "" {
				twins[st.Ino] = name
			}
			e.Twin = twins[st.Ino]
		}
		tree[name] = e
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

type entry struct {
	Mode    fs.FileMode
	Content string
	Time    time.Time
	Twin    string
}

func wantSame(t testing.TB, what string, want, got map[string]entry) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

// oddTree has everything that a tree may have.
func oddTree(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "tree")
	for _, d := range []string{"", "empty", "deep", "deep/er", "a dir", "read only", "sticky"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	long := filepath.Join(dir, "deep/er")
	for range 12 {
		long = filepath.Join(long, "a-name-that-is-long-enough-to-pass-what-ustar-takes")
		must(t, os.Mkdir(long, 0o755))
	}
	put(t, filepath.Join(long, "file"), "far down")
	files := []string{"plain", "none", "a dir/with space", "new\nline", "na\u00efve", "\u65e5\u672c", "\xff\xfe", "-dash", "back\\slash", "quote\"'", "..dots", "deep/er/x", "read only/x"}
	for i, f := range files {
		put(t, filepath.Join(dir, f), f[:i%(len(f)+1)])
	}
	must(t, os.Truncate(filepath.Join(dir, "plain"), 3<<20+17))
	must(t, os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "zz-hard link")))
	must(t, os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "deep/hard")))
	for link, to := range map[string]string{"soft": "plain", "dangling": "nowhere", "up": "../../..", "absolute": "/etc/passwd", "todir": "deep", "loop": "loop", "soft\nline": "new\nline", "\xff": "\xfe"} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	must(t, os.Link(filepath.Join(dir, "soft"), filepath.Join(dir, "soft-too")))
	none := fs.FileMode(0)
	if os.Getuid() != 0 {
		none = 0o400 // what nobody may read, nobody can pack
	}
	for f, mode := range map[string]fs.FileMode{"none": none, "-dash": 0o755, "..dots": fs.ModeSetuid | 0o755, "deep/er/x": fs.ModeSetgid | 0o711,
		"read only": 0o555, "sticky": fs.ModeSticky | 0o777, "empty": 0o700} {
		must(t, os.Chmod(filepath.Join(dir, f), mode))
	}
	when := time.Date(2001, 2, 3, 4, 5, 6, 789_012_345, time.UTC)
	for i, f := range append(files, "deep/er", "deep", "empty", "read only", "a dir", "sticky") {
		must(t, os.Chtimes(filepath.Join(dir, f), when, when.Add(time.Duration(i)*time.Hour)))
	}
	must(t, os.Chtimes(filepath.Join(dir, "none"), when, time.Date(1960, 1, 1, 0, 0, 0, 5, time.UTC)))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "read only"), 0o755) })
	return dir
}

// tempDir is a directory of the test's, which is removed whatever modes things in it have by then.
func tempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	removable(t, dir)
	return dir
}

// removable lets the test's clean-up remove what is below a directory, whatever modes it has by then.
func removable(t testing.TB, dir string) {
	t.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
}
