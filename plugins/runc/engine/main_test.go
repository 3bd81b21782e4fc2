//go:build linux

package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// needs ends a test where containers cannot be made.
func needs(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "root, to make containers")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		testkit.Lacking(t, "runc (install Debian's runc): %v", err)
	}
	if _, err := os.Stat("/bin/busybox"); err != nil {
		testkit.Lacking(t, "a static busybox (install Debian's busybox-static): %v", err)
	}
}

// world is an engine and what its containers need. At the end it must have left nothing.
type world struct {
	t   *testing.T
	dir string
	*Engine
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needs(t)
	dir, err := os.MkdirTemp("", "engine")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // a container's own root passes through
		t.Fatal(err)
	}
	e, err := New(filepath.Join(dir, "state"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, Engine: e}
	t.Cleanup(w.clean)
	return w
}

func (w *world) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Bound(w.t))
	defer cancel()
	entries, err := os.ReadDir(w.bundles())
	if err != nil {
		w.t.Error(err)
	}
	for _, entry := range entries {
		w.delete(ctx, entry.Name())
	}
	for _, dir := range []string{w.runcRoot(), w.bundles()} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			w.t.Errorf("%s: left %v, error %v", dir, left, err)
		}
	}
	if err := removeTree(w.dir); err != nil {
		w.t.Error(err)
	}
}

// delete deletes a container and looks for what it left.
func (w *world) delete(ctx context.Context, id string) {
	w.t.Helper()
	if err := w.Delete(ctx, id); err != nil {
		w.t.Error(err)
	}
	if dirs, err := w.cgroupDirs(id); err != nil || len(dirs) > 0 {
		w.t.Errorf("container %q left cgroups %q, error %v", id, dirs, err)
	}
	if mounts, err := mountsBelow(w.dir); err != nil || len(mounts) > 0 {
		w.t.Errorf("container %q left mounts %q, error %v", id, mounts, err)
	}
	if _, err := os.Stat(w.bundle(id)); !os.IsNotExist(err) {
		w.t.Errorf("container %q left its bundle: %v", id, err)
	}
}

// rootfs makes a root with busybox and nothing else.
func (w *world) rootfs(name string) string {
	w.t.Helper()
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "busybox"), program, 0o755); err != nil {
		w.t.Fatal(err)
	}
	for _, applet := range []string{"sh", "cat", "sleep", "true", "id", "seq", "head", "dd", "tail", "mkdir", "ls", "stat", "touch", "ip", "hostname", "grep", "pwd", "chroot"} {
		if err := os.Symlink("busybox", filepath.Join(dir, "bin", applet)); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

// create makes a container that sleeps, named as its rootfs.
func (w *world) create(id string, change func(*Spec)) {
	w.t.Helper()
	spec := Spec{ID: id, Rootfs: w.rootfs(id), Args: []string{"sleep", "3600"}}
	if change != nil {
		change(&spec)
	}
	if err := w.Create(w.t.Context(), spec); err != nil {
		w.t.Fatal(err)
	}
}

func script(text string) Command { return Command{Args: []string{"sh", "-c", text}} }

// output runs a script that must succeed.
func (w *world) output(id, text string) string {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	if err := w.Exec(w.t.Context(), id, script(text), nil, &stdout, &stderr); err != nil {
		w.t.Fatalf("%s: %v\n%s%s", text, err, &stdout, &stderr)
	}
	return stdout.String()
}

// alive tells whether there is a process of that pid on this machine that has not ended.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return false
	}
	state, _, ok := parseStat(string(text))
	if err != nil || !ok {
		t.Fatalf("process %d: %q, %v", pid, text, err)
	}
	return state != "Z" && state != "X"
}
