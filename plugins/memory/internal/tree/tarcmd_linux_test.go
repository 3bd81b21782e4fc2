package tree

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// gnuTar returns the machine's tar, which the CI must have.
func gnuTar(t *testing.T) string {
	t.Helper()
	tar, err := exec.LookPath("tar")
	if err == nil {
		var out []byte
		if out, err = exec.Command(tar, "--version").Output(); err == nil && !bytes.Contains(out, []byte("GNU tar")) {
			err = exec.ErrNotFound
		}
	}
	if err != nil {
		testkit.Lacking(t, "GNU tar: %v", err)
	}
	return tar
}

// TestTarCommand lets GNU tar unpack our stream, compares the directory by
// lstat, and lets it pack that again in each of its formats for us to read.
func TestTarCommand(t *testing.T) {
	tar := gnuTar(t)
	run := func(stdin []byte, args ...string) []byte {
		cmd := exec.Command(tar, args...)
		cmd.Stdin = bytes.NewReader(stdin)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("tar %q: %v\n%s", args, err, errs.String())
		}
		return out.Bytes()
	}
	root := os.Geteuid() == 0
	b := newBudget(t, 0)
	tr := newTree(t, b)
	w := newWorld(t, tr)
	zoo(t, w)
	if !root { // others cannot read all, nor give files away
		w.ok(w.RemoveAll("/", "/dir"))
		w.ok(w.Lchown("/", "/big", 0, 0))
	}
	dir := t.TempDir()
	args := []string{"-x", "-p", "-C", dir}
	if root {
		args = append(args, "--numeric-owner", "--same-owner")
	}
	run(pack(t, tr, ""), args...)
	compareReal(t, tr, dir, root)

	for _, format := range []string{"pax", "posix", "gnu", "oldgnu"} {
		t.Run(format, func(t *testing.T) {
			again := newTree(t, b)
			args := []string{"-c", "-C", dir, "--numeric-owner", "--sparse", "-H", format}
			if !root {
				args = append(args, "--owner=0", "--group=0")
			}
			if err := unpack(again, run(nil, append(args, ".")...), ""); err != nil {
				t.Fatal(err)
			}
			if format != "pax" && format != "posix" { // whole seconds only, so compare the names and contents
				compareReal(t, again, dir, false)
				return
			}
			if !root {
				compareReal(t, again, dir, false)
				return
			}
			// GNU tar's own rounding does not come in: PAX has nanoseconds.
			compareReal(t, again, dir, true)
			same(t, tr, again)
		})
	}
}

// compareReal compares a tree with a directory; exact means owners and mtimes
// too.
func compareReal(t *testing.T, tr *Tree, dir string, exact bool) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		seen++
		rel := strings.TrimPrefix(p, dir)
		real, err := os.Lstat(p)
		if err != nil {
			return err
		}
		ours, err := tr.Lstat(rel)
		if err != nil {
			return err
		}
		a, b := newState("", ours, map[uint64]string{}), newState("", real, map[uint64]string{})
		if !exact {
			a.UID, a.GID, b.UID, b.GID = 0, 0, 0, 0
		}
		a.Touched, b.Touched = false, false
		if exact {
			a.Text, b.Text = ours.ModTime().String(), real.ModTime().UTC().String()
			a.Text = ours.ModTime().UTC().String()
		}
		switch {
		case ours.Mode()&os.ModeSymlink != 0:
			x, _ := tr.Readlink(rel)
			y, _ := os.Readlink(p)
			a.Same, b.Same = x, y
		case ours.Mode().IsRegular():
			x, err := readAll(tr, rel)
			if err != nil {
				return err
			}
			y, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			a.Same, b.Same = short(x), short(y)
		}
		if a != b {
			t.Errorf("%.100q: the tree has\n%+v, the directory\n%+v", rel, a, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// Every name counts, hard links too.
	names := 0
	for _, n := range namesOf(t, tr) {
		names += n
	}
	if names != seen {
		t.Errorf("%s names in the tree, %d in the directory", strconv.Itoa(names), seen)
	}
}
