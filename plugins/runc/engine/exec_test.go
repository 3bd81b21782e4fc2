//go:build linux

package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

func TestExec(t *testing.T) {
	w := newWorld(t)
	w.create("c", nil)
	t.Run("codes", func(t *testing.T) {
		for text, code := range map[string]int{"exit 0": 0, "exit 1": 1, "exit 7": 7, "exit 255": 255, "kill -9 $$": 137} {
			err := w.Exec(t.Context(), "c", script(text), nil, nil, nil)
			exit, ok := errors.AsType[*ExitError](err)
			if code == 0 && err != nil || code != 0 && (!ok || exit.Code != code) {
				t.Errorf("%s: got %v, want code %d", text, err, code)
			}
		}
	})
	t.Run("stdin and both outputs", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		err := w.Exec(t.Context(), "c", script("cat; echo oops >&2"), strings.NewReader("hello\n"), &stdout, &stderr)
		if err != nil || stdout.String() != "hello\n" || stderr.String() != "oops\n" {
			t.Errorf("got %q, %q, %v", stdout.String(), stderr.String(), err)
		}
	})
	t.Run("no stdin", func(t *testing.T) {
		if got := w.output("c", "cat; echo end"); got != "end\n" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("env, dir and user", func(t *testing.T) {
		var stdout bytes.Buffer
		c := script(`echo "$A|$PATH|$(pwd)|$(id -u):$(id -g) $(id -G)"; grep CapEff /proc/self/status`)
		c.Env, c.Dir, c.User = []string{"A=1 2", "PATH=/bin"}, "/bin", User{UID: 1000, GID: 1001, Groups: []uint32{7}}
		if err := w.Exec(t.Context(), "c", c, nil, &stdout, nil); err != nil {
			t.Fatal(err)
		}
		want := "1 2|/bin|/bin|1000:1001 1001 7\nCapEff:\t0000000000000000\n"
		if stdout.String() != want {
			t.Errorf("got %q, want %q", stdout.String(), want)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		err := w.Exec(t.Context(), "c", Command{Args: []string{"/no/such"}}, nil, nil, nil)
		if failed, ok := errors.AsType[*RuncError](err); !ok || failed.Message == "" {
			t.Errorf("got %v, want a RuncError with runc's words", err)
		}
	})
	t.Run("no such container", func(t *testing.T) {
		if err := w.Exec(t.Context(), "d", script("true"), nil, nil, nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("much output", func(t *testing.T) {
		var stdout countingWriter
		if err := w.Exec(t.Context(), "c", script("head -c 67108864 /dev/zero"), nil, &stdout, nil); err != nil || stdout != 64<<20 {
			t.Errorf("got %d bytes, %v", stdout, err)
		}
	})
	t.Run("files are handed on", func(t *testing.T) {
		in, out := filepath.Join(w.dir, "in"), filepath.Join(w.dir, "out")
		if err := os.WriteFile(in, []byte("from a file"), 0o600); err != nil {
			t.Fatal(err)
		}
		stdin, err := os.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		stdout, err := os.Create(out)
		if err != nil {
			t.Fatal(err)
		}
		defer stdout.Close()
		if err := w.Exec(t.Context(), "c", script("cat"), stdin, stdout, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(out); string(got) != "from a file" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("errors of the caller's own come back", func(t *testing.T) {
		mine := errors.New("mine")
		for name, call := range map[string]func() error{
			"reader": func() error {
				return w.Exec(t.Context(), "c", script("cat; sleep 3600"), io.MultiReader(strings.NewReader("x"), failing{mine}), nil, nil)
			},
			"writer": func() error {
				return w.Exec(t.Context(), "c", script("while echo x; do :; done; sleep 3600"), nil, failing{mine}, nil)
			},
		} {
			if err := call(); err != mine {
				t.Errorf("%s: got %v", name, err)
			}
		}
		w.none(t, "c", "sleep", 1)
	})
	t.Run("a blocked stdin does not hold the end back", func(t *testing.T) {
		r, wr := io.Pipe()
		defer wr.Close()
		if err := w.Exec(t.Context(), "c", script("exit 0"), r, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

type countingWriter int

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// none wants that many processes of a program in a container, process 1 counted.
func (w *world) none(t *testing.T, id, program string, want int) {
	t.Helper()
	if n := w.count(t, id, program); n != want {
		t.Errorf("container %q has %d processes %q, want %d", id, n, program, want)
	}
}

// count is how many processes of a container have program in their command lines, which one that is just beginning has not.
func (w *world) count(t *testing.T, id, program string) (n int) {
	t.Helper()
	pids, err := w.processes(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if args, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline"); err == nil && strings.Contains(string(args), program) {
			n++
		}
	}
	return n
}

// TestCancel ends contexts at many moments of an exec, and then no command may be left.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.create("c", nil)
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
		err := w.Exec(ctx, "c", Command{Args: []string{"sleep", "7200"}}, nil, nil, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("after %d ms: %v", i, err)
		}
		w.none(t, "c", "7200", 0)
	}
	t.Run("while it writes", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		if err := w.Exec(ctx, "c", script("while echo x; do :; done"), nil, first, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("while a child holds the output", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
		if err := w.Exec(ctx, "c", script("sleep 60 & echo started"), nil, first, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if got := w.output("c", "echo fine"); got != "fine\n" {
		t.Errorf("afterwards: %q", got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestRuncKilled kills the runc of a command from outside, as the kernel does when memory is short.
func TestRuncKilled(t *testing.T) {
	w := newWorld(t)
	w.create("c", nil)
	started := writerFunc(func(p []byte) (int, error) {
		for _, pid := range livingChildren(os.Getpid()) {
			if args, err := os.ReadFile("/proc/" + itoa(pid) + "/cmdline"); err == nil && strings.Contains(string(args), "process.json") {
				p, err := os.FindProcess(pid)
				if err == nil {
					err = p.Kill()
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
		return len(p), nil
	})
	err := w.Exec(t.Context(), "c", script("echo started; exec sleep 7200"), nil, started, nil)
	failed, ok := errors.AsType[*RuncError](err)
	if !ok {
		t.Fatalf("got %v, want a RuncError", err)
	}
	if _, ok := errors.AsType[*exec.ExitError](failed); !ok {
		t.Errorf("got %v", failed.Err)
	}
	testkit.Until(t, "its command goes on", func() bool { return w.count(t, "c", "7200") == 1 })
	w.delete(t.Context(), "c")
}

// TestDeleteAfterKilledEngine deletes what an engine was deleting when it was killed: it had stopped the runc of a command, and killed the command.
func TestDeleteAfterKilledEngine(t *testing.T) {
	w := newWorld(t)
	w.create("c", nil)
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.Exec(t.Context(), "c", script("echo started; exec sleep 7200"), nil, writerFunc(func(p []byte) (int, error) { close(started); return len(p), nil }), nil)
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	runcs := 0
	for _, pid := range livingChildren(os.Getpid()) {
		if !w.runsCommand("/proc/"+itoa(pid)+"/cmdline", "c") {
			continue
		}
		runcs++
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if !killChildren(t.Context(), &exec.Cmd{Process: p}) {
			t.Error("runc had no command")
		}
	}
	if runcs != 1 {
		t.Errorf("there are %d runcs", runcs)
	}
	other, err := New(w.Engine.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Delete(testkit.Context(t), "c"); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the command is said to have ended well")
	}
}

// TestDeleteUnderCommands deletes a container in which commands start and run.
func TestDeleteUnderCommands(t *testing.T) {
	w := newWorld(t)
	w.create("c", nil)
	ready := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			said := writerFunc(func(p []byte) (int, error) { ready <- struct{}{}; return len(p), nil })
			if err := w.Exec(t.Context(), "c", script("echo ready; sleep 7200"), nil, said, nil); !errors.Is(err, ErrNotFound) {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for {
				err := w.Exec(t.Context(), "c", script("exit 3"), nil, nil, nil)
				if errors.Is(err, ErrNotFound) {
					return
				}
				if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Code != 3 {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 4 {
		<-ready
	}
	w.delete(t.Context(), "c")
	wg.Wait()
}
