//go:build linux

package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestLife(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if err := w.Delete(ctx, "c"); err != nil {
		t.Errorf("deleting what never was: %v", err)
	}
	if _, err := w.State(ctx, "c"); !errors.Is(err, ErrNotFound) {
		t.Errorf("state of what never was: %v", err)
	}
	w.create("c", func(s *Spec) {
		s.Annotations = map[string]string{"a": "b"}
		s.Hostname = "here"
		s.Args = []string{"sh", "-c", "echo hello; >/said; sleep 3600"}
		s.Dir = "/work/dir"
	})
	if err := w.Create(ctx, Spec{ID: "c", Rootfs: "/x", Args: []string{"x"}}); !errors.Is(err, ErrExists) {
		t.Errorf("creating it again: %v", err)
	}
	info, err := w.State(ctx, "c")
	if err != nil || info.Status != Running || info.PID == 0 || info.Annotations["a"] != "b" {
		t.Errorf("got %+v, %v", info, err)
	}
	if got := w.output("c", "until [ -e /said ]; do sleep 0.02; done; hostname; ls -d /work/dir; ls -l /dev/null /dev/ptmx | head -c 1"); got != "here\n/work/dir\nc" {
		t.Errorf("got %q", got)
	}
	again, err := New(filepath.Join(w.dir, "state"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if seen, err := again.State(ctx, "c"); err != nil || seen.PID != info.PID || seen.Status != Running || seen.Annotations["a"] != "b" {
		t.Errorf("another engine sees %+v, %v", seen, err)
	}
	if pid, err := again.PID("c"); err != nil || pid != info.PID {
		t.Errorf("its process 1 is %d to it, %v, want %d", pid, err, info.PID)
	}
	if err := w.Kill(ctx, "c", syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if err := w.awaitEmpty(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if info, err := w.State(ctx, "c"); err != nil || info.Status != Stopped {
		t.Errorf("after a kill: %+v, %v", info, err)
	}
	if err := w.Exec(ctx, "c", script("true"), nil, nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("exec after a kill: %v", err)
	}
	if err := w.Kill(ctx, "c", syscall.SIGKILL); !errors.Is(err, ErrNotRunning) {
		t.Errorf("kill after a kill: %v", err)
	}
	if text, err := w.Output("c", 100); string(text) != "hello\n" {
		t.Errorf("process 1 wrote %q, %v", text, err)
	}
	w.delete(ctx, "c")
	if err := w.Exec(ctx, "c", script("true"), nil, nil, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("exec after delete: %v", err)
	}
	w.delete(ctx, "c")
	if alive(t, info.PID) {
		t.Errorf("process 1, %d, outlived its container", info.PID)
	}
}

// awaitEmpty waits for the end of a container's processes without killing any: through the first of each round.
func (w *world) awaitEmpty(ctx context.Context, id string) error {
	for {
		pids, err := w.processes(id)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := awaitPID(ctx, pids[0]); err != nil {
			return err
		}
	}
}

func TestRootfs(t *testing.T) {
	w := newWorld(t)
	volume := filepath.Join(w.dir, "volume")
	if err := os.MkdirAll(filepath.Join(volume, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "file"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	mounts := []Mount{
		{Source: volume, Path: "/v/missing/inner"},
		{Source: volume, Path: "/v", ReadOnly: true},
		{Source: volume, Path: "/v/there"},
		{Source: "/bin/busybox", Path: "/slipway/program", ReadOnly: true},
	}
	t.Run("empty", func(t *testing.T) {
		root := filepath.Join(w.dir, "nothing")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		err := w.Create(t.Context(), Spec{
			ID: "empty", Rootfs: root, Args: []string{"/slipway/busybox", "sleep", "3600"},
			Mounts: []Mount{{Source: "/bin/busybox", Path: "/slipway/busybox", ReadOnly: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Exec(t.Context(), "empty", Command{Args: []string{"/slipway/busybox", "true"}}, nil, nil, nil); err != nil {
			t.Error(err)
		}
	})
	t.Run("read-only, with mounts in mounts", func(t *testing.T) {
		w.create("ro", func(s *Spec) { s.ReadonlyRootfs, s.Mounts, s.Dir = true, mounts, "/v/there" })
		got := w.output("ro", `
			touch /x 2>/dev/null && echo "root is writable"
			touch /v/x 2>/dev/null && echo "/v is writable"
			touch /slipway/program 2>/dev/null && echo "the program is writable"
			cat /v/file /v/there/file /v/missing/inner/file; echo
			touch /v/missing/inner/new && ls /v /v/there /v/missing`)
		want := "contentcontentcontent\n/v:\nfile\nmissing\nnew\nthere\n\n/v/missing:\ninner\n\n/v/there:\nfile\nnew\nthere\n"
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	for _, id := range []string{"empty", "ro"} {
		w.delete(t.Context(), id)
	}
	entries, err := os.ReadDir(volume)
	if err != nil || len(entries) != 3 || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "missing" }) {
		t.Errorf("the volume has %v afterwards, %v", entries, err)
	}
	t.Run("nothing is left of what cannot be made", func(t *testing.T) {
		err := w.Create(t.Context(), Spec{ID: "bad", Rootfs: w.rootfs("bad"), Args: []string{"/no/such"}})
		if failed, ok := errors.AsType[*RuncError](err); !ok || !strings.Contains(failed.Error(), "bad") {
			t.Errorf("got %v", err)
		}
		w.delete(t.Context(), "bad")
	})
}

func TestLimits(t *testing.T) {
	w := newWorld(t)
	if got := w.Controllers(); !slices.Equal(got, []string{"cpu", "memory", "pids"}) {
		testkit.Lacking(t, "controllers of cgroups: there are only %q", got)
	}
	w.create("c", func(s *Spec) { s.MemoryBytes, s.PIDs, s.CPUMillis, s.CPUShares = 32<<20, 24, 500, 512 })
	t.Run("memory", func(t *testing.T) {
		// tail keeps all of a line that does not end. While it is on its way out the kernel may take a second one: it must not be the container's first process.
		err := w.Exec(t.Context(), "c", Command{Args: []string{"sh", "-c", "echo 500 >/proc/self/oom_score_adj; head -c 100m /dev/zero | tail -n 1 >/dev/null; exit $?"}}, nil, nil, nil)
		if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Code != 137 {
			t.Errorf("100 MiB in a container of 32 MiB: %v", err)
		}
		seen := w.output("c", "cat /sys/fs/cgroup/memory/memory.oom_control /sys/fs/cgroup/memory.events 2>/dev/null || true")
		if !regexp.MustCompile(`oom_kill [1-4]\n`).MatchString(seen) {
			t.Errorf("the container sees %q", seen)
		}
		if info, err := w.State(t.Context(), "c"); err != nil || info.Status != Running {
			t.Errorf("afterwards it is %+v, %v", info, err)
		}
	})
	t.Run("cpu", func(t *testing.T) {
		text := w.output("c", "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null || true")
		if !strings.HasPrefix(text, "50000") {
			t.Errorf("the quota of half a core is %q", text)
		}
		// Version 2 has another scale, of 1 to 10000, on which runc puts 512 at 20 or, since 1.3.2, at 59.
		weight := w.output("c", "cat /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu.weight 2>/dev/null || true")
		if !slices.Contains([]string{"512\n", "20\n", "59\n"}, weight) {
			t.Errorf("a weight of half the usual is %q", weight)
		}
	})
	t.Run("pids", func(t *testing.T) {
		var stderr strings.Builder
		err := w.Exec(t.Context(), "c", script("i=0; while [ $i -lt 40 ]; do sleep 60 >/dev/null 2>&1 & i=$((i+1)); done"), nil, nil, &stderr)
		pids, listErr := w.processes("c")
		if err == nil || !strings.Contains(stderr.String(), "fork") || listErr != nil || len(pids) > 24 {
			t.Errorf("40 children in a container of 24: %v, %q; %d processes, %v", err, stderr.String(), len(pids), listErr)
		}
	})
}

func TestUserNamespace(t *testing.T) {
	for name, hostNetwork := range map[string]bool{"own network": false, "host's network": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := []IDMap{{Container: 0, Host: 100000, Size: 65536}}
			volume := filepath.Join(w.dir, "volume")
			if err := os.Mkdir(volume, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(volume, 100000, 100000); err != nil {
				t.Fatal(err)
			}
			w.create("c", func(s *Spec) {
				if err := os.Chown(s.Rootfs, 100000, 100000); err != nil {
					t.Fatal(err)
				}
				s.UIDs, s.GIDs, s.HostNetwork = ids, ids, hostNetwork
				s.Mounts = []Mount{{Source: volume, Path: "/v"}, {Source: w.dir + "/c", Path: "/ro", ReadOnly: true}, {Source: volume, Path: "/ro/in/it"}}
			})
			if got := w.output("c", "id -u; touch /v/x; stat -c %u /v/x; ls /ro/in/it; ls /sys/fs/cgroup | head -n 1 | grep -c ."); got != "0\n0\nx\n1\n" {
				t.Errorf("got %q", got)
			}
			info, err := os.Stat(filepath.Join(volume, "x"))
			if err != nil || info.Sys().(*syscall.Stat_t).Uid != 100000 {
				t.Errorf("outside it is %+v, %v", info, err)
			}
		})
	}
}

func TestPrivileges(t *testing.T) {
	w := newWorld(t)
	w.create("plain", func(s *Spec) { s.User = User{UID: 1000, GID: 1001, Groups: []uint32{1002}} })
	w.create("mighty", func(s *Spec) { s.Privileged = true })
	effective := func(id string) uint64 {
		text := w.output(id, "grep CapEff /proc/self/status")
		bits, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(text, "CapEff:")), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return bits
	}
	const ptrace, admin = 1 << 19, 1 << 21
	if bits := effective("plain"); bits != 0xa80425fb {
		t.Errorf("an ordinary container has %x", bits)
	}
	testkit.Until(t, "process 1 is the command, and not what makes it any more", func() bool {
		return strings.HasPrefix(w.output("plain", "cat /proc/1/cmdline"), "sleep\x00")
	})
	if got := w.output("plain", "grep -E '^(Uid|Gid|Groups|CapEff)' /proc/1/status"); strings.Join(strings.Fields(got), " ") !=
		"Uid: 1000 1000 1000 1000 Gid: 1001 1001 1001 1001 Groups: 1002 CapEff: 0000000000000000" {
		t.Errorf("process 1 of a user who is not root is %q", got)
	}
	if bits := effective("mighty"); bits&ptrace == 0 || bits&admin == 0 {
		t.Errorf("a privileged container has %x", bits)
	}
}

func TestNetwork(t *testing.T) {
	w := newWorld(t)
	w.create("none", nil)
	w.create("host", func(s *Spec) { s.HostNetwork = true })
	if got := w.output("none", "cat /proc/net/dev | tail -n +3 | grep -c -v lo: || true"); got != "0\n" {
		t.Errorf("without a network there are %q interfaces beside lo", got)
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.output("host", "ls -l /proc/self/ns/net"); !strings.Contains(got, ours) {
		t.Errorf("the host's network is %q, the container's %q", ours, got)
	}
}

func TestTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	roots := []string{w.rootfs("a"), w.rootfs("b")}
	var wg sync.WaitGroup
	for i, id := range []string{"a", "b"} {
		wg.Go(func() {
			for range 3 {
				if err := w.Create(t.Context(), Spec{ID: id, Rootfs: roots[i], Args: []string{"sleep", "3600"}}); err != nil {
					t.Error(err)
					return
				}
				var out strings.Builder
				if err := w.Exec(t.Context(), id, script("hostname"), nil, &out, nil); err != nil || out.String() != id+"\n" {
					t.Errorf("%s: %q, %v", id, out.String(), err)
				}
				if err := w.Delete(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestKilledRunc: a runc that is killed while it begins has its own program mounted in its directory of the container, and nothing recorded there.
func TestKilledRunc(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.runcRoot(), "c")
	program := filepath.Join(dir, "runc.abcdef")
	for _, err := range []error{os.MkdirAll(dir, 0o711), os.WriteFile(program, nil, 0o600), unix.Mount("/bin/busybox", program, "", unix.MS_BIND, "")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.delete(t.Context(), "c")
	if left, err := os.ReadDir(w.runcRoot()); err != nil || len(left) > 0 {
		t.Errorf("left %v, error %v", left, err)
	}
	if err := w.Create(t.Context(), Spec{ID: "c", Rootfs: w.rootfs("c"), Args: []string{"sleep", "3600"}}); err != nil {
		t.Error(err)
	}
}

// TestCreateCancelled ends contexts at many moments of a creation: then nothing is there, and the id can be used.
func TestCreateCancelled(t *testing.T) {
	w := newWorld(t)
	spec := Spec{ID: "c", Rootfs: w.rootfs("c"), Args: []string{"sleep", "3600"}}
	for i := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), milliseconds(4*i))
		err := w.Create(ctx, spec)
		cancel()
		if err == nil {
			w.delete(t.Context(), "c")
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %d ms: %v", 4*i, err)
		}
		if dirs, err := w.cgroupDirs("c"); err != nil || len(dirs) > 0 {
			t.Fatalf("after %d ms: %q, %v", 4*i, dirs, err)
		}
		if _, err := w.State(t.Context(), "c"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("after %d ms: %v", 4*i, err)
		}
	}
}
