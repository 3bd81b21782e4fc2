package launch

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestSocketsAndLitterAreRemoved(t *testing.T) {
	p, _ := launch(t, []string{"litter"})
	session(t, p)
	privates := func() []string {
		dirs, err := filepath.Glob(filepath.Join(p.opts.TempDir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(dirs, func(name string) bool { return strings.HasSuffix(name, lockSuffix) })
	}
	first := privates()
	if len(first) != 1 {
		t.Fatalf("private directories %v", first)
	}
	if info, err := os.Stat(first[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := unix.Kill(p.State().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, p, "second session", func(r Report) bool { return r.State == StateReady && r.Epoch == 2 })
	if now := privates(); len(now) != 1 || now[0] == first[0] {
		t.Errorf("private directories %v, at first %v", now, first)
	}
}

func TestTheEnvironmentIsWhatTheConfigurationAllows(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	cwd, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, l := launch(t, []string{"env", "cwd"}, func(s *Spec, _ *Options) {
		s.Env = map[string]string{"ALLOWED": "yes", "LANG": "C"}
		s.Dir = cwd
	})
	session(t, p)
	l.await(t, "cwd "+cwd)
	var names []string
	lines, _ := l.snapshot()
	for _, line := range lines {
		if kv, ok := strings.CutPrefix(line["msg"].(string), "env "); ok {
			name, _, _ := strings.Cut(kv, "=")
			if !strings.HasPrefix(name, "PLUGIN_") && !strings.HasPrefix(name, "SLIPWAY_") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if want := []string{"ALLOWED", "HOME", "LANG", "PATH", "TMPDIR"}; !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	l.await(t, "env LANG=C")
}

func TestAPinnedProgram(t *testing.T) {
	dir := t.TempDir()
	sum := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.Sum256(b)
		return hex.EncodeToString(h[:])
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\"\n", misbehave), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"binary": misbehave, "script": script} {
		t.Run(name, func(t *testing.T) {
			want := sum(path)
			p, _ := launch(t, nil, func(s *Spec, _ *Options) { s.Command, s.SHA256 = path, strings.ToUpper(want) })
			session(t, p)
			p.Restart()
			if s := session(t, p); s.Epoch != 2 || p.State().SHA256 != want {
				t.Errorf("second start: epoch %d, sum %s", s.Epoch, p.State().SHA256)
			}
		})
	}
	t.Run("changed", func(t *testing.T) {
		p, _ := launch(t, nil, func(s *Spec, _ *Options) { s.Command, s.SHA256 = script, sum(script) })
		session(t, p)
		old := sum(script)
		next := script + ".new"
		if err := os.WriteFile(next, []byte("#!/bin/sh\nexit 9\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, script); err != nil {
			t.Fatal(err)
		}
		p.Restart()
		err := failure(t, p)
		if err.Reason != ReasonChecksum || !strings.Contains(err.Error(), old) || !strings.Contains(err.Error(), sum(script)) || err.Exit != nil {
			t.Errorf("%s, exit %v: %v", err.Reason, err.Exit, err)
		}
	})
	t.Run("writable for everybody", func(t *testing.T) {
		if err := os.Chmod(script, 0o757); err != nil {
			t.Fatal(err)
		}
		p, _ := launch(t, nil, func(s *Spec, _ *Options) { s.Command, s.SHA256 = script, sum(script) })
		if err := failure(t, p); err.Reason != ReasonChecksum || !strings.Contains(err.Error(), "chmod o-w") {
			t.Errorf("%s: %v", err.Reason, err)
		}
	})
}

// What was checked is what runs, even if the path leads elsewhere by then.
func TestThePinnedFileItselfIsExecuted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tool")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho checked\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := openPinned(path, sumAt(path))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	other := path + ".other"
	if err := os.WriteFile(other, []byte("#!/bin/sh\necho slipped in\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	private, err := newPrivateDir("")
	if err != nil {
		t.Fatal(err)
	}
	proc, err := startProcess(command{path: path, pinned: f, dir: private}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	<-proc.done
	if string(proc.out.line) != "checked" {
		t.Errorf("it printed %q and ended with %v", proc.out.line, &proc.exit)
	}
}

// asHost makes the test binary a host that starts a plugin, tells its pid, and waits for the end.
const asHost = "LAUNCH_TEST_HOST"

func hostToBeKilled() {
	opts := Options{TempDir: os.Getenv("LAUNCH_TEST_DIR"), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	quick(&opts)
	p := Start(Spec{Name: "mis", Command: os.Getenv(asHost), Args: os.Args[1:]}, opts)
	if _, err := p.Session(context.Background()); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.State().PID)
	select {}
}

func TestAPluginDoesNotOutliveItsHost(t *testing.T) {
	for name, mode := range map[string][]string{
		"silent": nil, "logging": {"flood"}, "deaf": {"deaf"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "lt")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			host := exec.Command(self, mode...)
			host.Env = append(os.Environ(), asHost+"="+misbehave, "LAUNCH_TEST_DIR="+dir)
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			first, err := bufio.NewReader(out).ReadString('\n')
			pid, atoi := strconv.Atoi(strings.TrimSpace(first))
			if err := host.Process.Kill(); err != nil {
				t.Error(err)
			}
			io.Copy(io.Discard, out)
			host.Wait()
			if err != nil || atoi != nil {
				t.Fatalf("the host said %q, %v", first, err)
			}
			awaitGone(t, pid, testkit.Bound(t))

			// The next host removes what that one could not.
			left := func() []string {
				names, _ := filepath.Glob(filepath.Join(dir, "*"))
				return names
			}
			if len(left()) != 2 {
				t.Errorf("the host left %v", left())
			}
			next, err := newPrivateDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			other, err := newPrivateDir(dir) // a living one's is left alone
			if err != nil {
				t.Fatal(err)
			}
			if names := left(); len(names) != 4 {
				t.Errorf("after the next hosts' start there is %v", names)
			}
			if err := errors.Join(next.remove(), other.remove()); err != nil || len(left()) != 0 {
				t.Errorf("at the end %v, %v", left(), err)
			}
		})
	}
}

// A sweep that begins and ends between the making of a lock and its locking takes the name away; a directory under such a lock would stay for
// ever once its host is killed.
func TestASweepOvertakesALock(t *testing.T) {
	base := t.TempDir()
	for name, c := range map[string]struct {
		between func(lock *os.File)
		held    bool
	}{
		"no sweep":        {func(*os.File) {}, true},
		"a sweep":         {func(*os.File) { sweep(base) }, false},
		"a sweep goes on": {func(lock *os.File) { holdAnew(t, lock.Name()) }, false},
		"name taken over": {func(lock *os.File) { sweep(base); os.WriteFile(lock.Name(), nil, 0o600) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			lock, err := os.CreateTemp(base, dirPattern+lockSuffix)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			defer os.Remove(lock.Name())
			c.between(lock)
			if held, err := hold(lock); err != nil || held != c.held {
				t.Errorf("held is %v, %v", held, err)
			}
		})
	}
}

func holdAnew(t *testing.T, name string) {
	other, err := openOwn(name)
	if err == nil {
		t.Cleanup(func() { other.Close() })
		err = tryLock(other)
	}
	if err != nil {
		t.Fatal(err)
	}
}
