//go:build linux

package nomadtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

func proc(pid int) string { return fmt.Sprintf("/proc/%d", pid) }

func cmdline(pid int) string {
	b, _ := os.ReadFile(proc(pid) + "/cmdline")
	return string(b)
}

// started returns when a process was started, in ticks since boot: with its id that names one process for good.
func started(t *testing.T, proc string) string {
	t.Helper()
	b, err := os.ReadFile(proc + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)[19]
}

func freeze(t *testing.T, a *Agent) {
	t.Helper()
	if err := syscall.Kill(a.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// stray is a command for a task that leaves the task's directory, session and process group, closes what it was given, and ignores signals.
const stray = `cd / && trap '' HUP INT TERM && setsid sleep 1001 </dev/null >/dev/null 2>&1 & sleep 1000`

// TestNothingLeft ends tests with an agent in each state, and looks for what they started.
func TestNothingLeft(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	ctx := testkit.Context(t)
	for name, end := range map[string]func(*testing.T, *Agent){
		"running":       func(*testing.T, *Agent) {},
		"frozen":        freeze,
		"killed":        func(_ *testing.T, a *Agent) { a.Kill() },
		"Docker killed": func(_ *testing.T, a *Agent) { a.docker.kill() },
		"stopped": func(t *testing.T, a *Agent) {
			if err := a.Stop(ctx); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s site
			var procs []string
			t.Run("test", func(t *testing.T) {
				a := Start(t, Options{Dev: name != "stopped", Docker: name == "killed" || name == "Docker killed"}) // stopped with Dev, it would end its tasks itself
				s.dir = a.dir
				procs = append(procs, proc(a.PID()))
				tasks := []Task{{Command: "/bin/sh", Args: []string{"-c", stray}}}
				if a.HasExec() {
					tasks = append(tasks, Task{Driver: Exec, User: ContainerRoot, Command: "/bin/sh", Args: []string{"-c", stray}})
				}
				if a.docker != nil {
					tasks = append(tasks, Task{Driver: Docker, Command: "/bin/sh", Args: []string{"-c", stray}})
				}
				for _, task := range tasks {
					alloc, err := a.Run(ctx, task)
					if err != nil {
						t.Fatal(err)
					}
					s.allocs = append(s.allocs, alloc.ID)
				}
				pids := s.await(t, func(pids []int) bool {
					strays := 0
					for _, pid := range pids {
						if strings.HasPrefix(cmdline(pid), "sleep\x001001\x00") { // no longer setsid
							strays++
						}
					}
					return strays == len(tasks)
				})
				for _, pid := range pids {
					procs = append(procs, proc(pid))
				}
				end(t, a)
			})
			if s.dir == "" {
				testkit.Lacking(t, "an agent: see above")
			}
			for _, p := range procs {
				if alive(p) {
					t.Errorf("%s is still there", p)
				}
			}
			mounts, err := os.ReadFile("/proc/self/mountinfo")
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(mounts), s.dir) {
				t.Errorf("something is mounted below %s:\n%s", s.dir, mounts)
			}
			if _, err := os.Lstat(s.dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v; want none", s.dir, err)
			}
			if found, err := s.left(); err != nil || len(found) > 0 {
				t.Errorf("left: %q, error %v", found, err)
			}
		})
	}
}

// TestSweep kills a test binary; the next one clears away what it had.
func TestSweep(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	const abandon = "NOMADTEST_ABANDON"
	ctx := testkit.Context(t)
	if os.Getenv(abandon) != "" {
		a := Start(t, Options{Dev: true, Docker: true})
		if _, err := a.Run(ctx, sleeper(Docker)); err != nil {
			t.Fatal(err)
		}
		alloc, err := a.Run(ctx, sleeper(RawExec))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("\n%s %s %d\n", abandon, a.dir, a.PID())
		if _, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/sleep", "1000"}, nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	program(t)
	tmp, err := os.MkdirTemp("", "sweep-") // of its own, for each Start of any test sweeps where it is
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSweep$")
	cmd.Env = append(os.Environ(), abandon+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); said == nil && lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == abandon {
			said = f
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if said == nil {
		t.Fatal("the test binary started no agent")
	}
	dir := said[1]
	s := &site{dir: dir}
	if err := s.survey(); err != nil || len(s.allocs) != 2 || len(s.sockets) != 1 || !s.hasBridge() {
		t.Fatalf("allocations %v, sockets %v, error %v", s.allocs, s.sockets, err)
	}
	s.await(t, func(pids []int) bool { return slices.ContainsFunc(pids, sleeping) }) // the task outlives the test binary
	if err := sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if found, err := s.left(); err != nil || len(found) > 0 {
		t.Errorf("left: %q, error %v", found, err)
	}
}

// TestSweepSparesOthers leaves agents alone that are in use.
func TestSweepSparesOthers(t *testing.T) {
	t.Parallel()
	a := Start(t, Options{Dev: true})
	if err := sweep(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if !a.proc.running() || !executable(a.bin) {
		t.Error("sweep ended an agent in use")
	}
	if _, err := os.Stat(filepath.Join(a.dir, "agent.json")); err != nil {
		t.Error(err)
	}
}

// TestMountKeepsFiles does not delete through a mount that cannot be undone.
func TestMountKeepsFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "mounting needs root")
	}
	base := t.TempDir()
	precious, dir := filepath.Join(base, "precious"), filepath.Join(base, "agent")
	for _, d := range []string{precious, filepath.Join(dir, "a b")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(precious, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	point := filepath.Join(dir, "a b")
	for range 2 { // one on the other
		if err := syscall.Mount(precious, point, "", syscall.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(point, syscall.MNT_DETACH) })
	}
	s := &site{dir: dir}
	busy, err := os.Open(filepath.Join(point, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := s.clear(context.Background()); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("clear with a busy mount: %v; want EBUSY", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	busy.Close()
	if err := s.clear(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v; want none", dir, err)
	}
}
