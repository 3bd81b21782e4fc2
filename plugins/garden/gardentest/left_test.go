//go:build linux

package gardentest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestNothingLeft ends a test with a container that runs, and takes what a killed test binary leaves for the next one to clear away.
func TestNothingLeft(t *testing.T) {
	t.Run("clean-up", func(t *testing.T) {
		var left traces
		t.Run("test", func(t *testing.T) {
			w := newWorld(t, Options{})
			left = w.leave(t)
			w.KillGarden()
		})
		left.check(t)
	})
	t.Run("sweep", func(t *testing.T) {
		ctx := testkit.Context(t)
		s, err := open(find(t, Options{}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.first(ctx); err != nil {
			t.Fatal(err)
		}
		w := &world{Servers: s, t: t, client: dial(t, s.Garden), root: s.Volume(t, "image", Busybox(t), false) + "/rootfs"}
		left := w.leave(t)
		sweep(ctx, t)
		if _, err := os.Stat(s.Dir); err != nil {
			t.Fatalf("a directory in use was swept: %v", err)
		}
		s.lock.Close()
		testkit.Until(t, "what was left is swept", func() bool { // by this test, or by another package's that came first
			sweep(ctx, t)
			_, err := os.Stat(s.Dir)
			return os.IsNotExist(err)
		})
		left.check(t)
	})
}

// traces are what containers and servers can leave.
type traces struct {
	dir    string
	groups []string
}

// leave makes a container in which a process runs.
func (w *world) leave(t *testing.T) traces {
	t.Helper()
	c, err := w.tryCreate("left", nil)
	if err != nil {
		t.Fatal(err)
	}
	started(t, c, "", "exec sleep 600 >/dev/null 2>&1")
	left := traces{dir: w.Dir}
	for line := range strings.Lines(groupsOf(t, w.Dir, "left")) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 || !strings.HasPrefix(fields[2], "/slipway-") {
			continue
		}
		for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} { // of version 2, and of version 1
			found, err := filepath.Glob(pattern + fields[2])
			if err != nil {
				t.Fatal(err)
			}
			left.groups = append(left.groups, found...)
		}
	}
	if len(left.groups) == 0 {
		t.Fatal("the container has no control groups")
	}
	return left
}

func (l traces) check(t *testing.T) {
	t.Helper()
	for _, path := range append(l.groups, l.dir) {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("left: %s, %v", path, err)
		}
	}
	if mounts, err := mountsIn(l.dir); err != nil || len(mounts) > 0 {
		t.Errorf("left mounted: %q, %v", mounts, err)
	}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, proc := range procs {
		if livesIn(proc, l.dir) {
			t.Errorf("left running: %s", proc)
		}
	}
}

// groupsOf gives the control groups of a container, as the kernel has them for its process 1.
func groupsOf(t *testing.T, dir, handle string) string {
	t.Helper()
	out, err := exec.Command("runc", "--root", filepath.Join(dir, "garden", "engine", "runc"), "state", handle).Output()
	if err != nil {
		t.Fatal(err)
	}
	var state struct{ PID int }
	if err := json.Unmarshal(out, &state); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", state.PID))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRemoveStopsAtMounts(t *testing.T) {
	find(t, Options{})
	dir, lock, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	at := filepath.Join(dir, "a mount")
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", at, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(at, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Error(err)
	}
	if err := remove(dir); err == nil {
		t.Error("a directory with a mount in it was removed")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if err := clear(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
}
