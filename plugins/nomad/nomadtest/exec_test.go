//go:build linux

package nomadtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/slipway-run/slipway/internal/testkit"
)

var errOwn = errors.New("the caller's own")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errOwn }

// TestExec has its cases on one task, which each driver has.
func TestExec(t *testing.T) {
	t.Parallel()
	a := Start(t, Options{Dev: true})
	for _, driver := range []string{RawExec, Exec} {
		t.Run(driver, func(t *testing.T) {
			if driver == Exec && !a.HasExec() {
				testkit.Lacking(t, "the exec driver needs control groups")
			}
			ctx := testkit.Context(t)
			alloc, err := a.Run(ctx, sleeper(driver))
			if err != nil {
				t.Fatal(err)
			}
			sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }

			t.Run("exit code and streams", func(t *testing.T) {
				var out, errs bytes.Buffer
				code, err := a.Exec(ctx, alloc, TaskName, sh("cat; echo oops >&2; exit 5"), strings.NewReader("to and fro\n"), &out, &errs)
				if err != nil || code != 5 || out.String() != "to and fro\n" || errs.String() != "oops\n" {
					t.Errorf("code %d, error %v, stdout %q, stderr %q", code, err, &out, &errs)
				}
			})
			t.Run("signal", func(t *testing.T) {
				if code, err := a.Exec(ctx, alloc, TaskName, sh("kill -9 $$"), nil, nil, nil); err != nil || code != 137 {
					t.Errorf("code %d, error %v; want 137", code, err)
				}
			})
			t.Run("missing task", func(t *testing.T) {
				if code, err := a.Exec(ctx, alloc, "other", sh("true"), nil, nil, nil); err == nil {
					t.Errorf("code %d without an error", code)
				}
			})
			t.Run("all bytes", func(t *testing.T) {
				sent := bytes.Repeat([]byte("0123456789abcdef\x00\xff\n"), 100_000)
				got := sha256.New()
				code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/cat"}, bytes.NewReader(sent), got, nil)
				if want := sha256.Sum256(sent); err != nil || code != 0 || !bytes.Equal(got.Sum(nil), want[:]) {
					t.Errorf("code %d, error %v; %d bytes came back changed: %v", code, err, len(sent), !bytes.Equal(got.Sum(nil), want[:]))
				}
			})
			t.Run("complete on return", func(t *testing.T) {
				for range 20 {
					var out bytes.Buffer
					code, err := a.Exec(ctx, alloc, TaskName, sh("seq 1 200"), nil, &out, nil)
					if err != nil || code != 0 || strings.Count(out.String(), "\n") != 200 {
						t.Fatalf("code %d, error %v, %d lines of 200", code, err, strings.Count(out.String(), "\n"))
					}
				}
			})
			t.Run("writer's error", func(t *testing.T) {
				if _, err := a.Exec(ctx, alloc, TaskName, sh("echo a; exec sleep 5"), nil, failingWriter{}, nil); err != errOwn {
					t.Errorf("error %v; want the writer's", err)
				}
			})
			t.Run("reader's error", func(t *testing.T) {
				if _, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/cat"}, iotest.ErrReader(errOwn), nil, nil); !errors.Is(err, errOwn) {
					t.Errorf("error %v; want the reader's", err)
				}
			})
			t.Run("cancel", func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(ctx)
				in, feed := io.Pipe()
				defer feed.Close() // ends the Read that is left
				begun := make(starter)
				go func() {
					<-begun
					cancel(errOwn)
				}()
				if _, err := a.Exec(ctx, alloc, TaskName, sh("echo on; exec sleep 30"), in, begun, nil); err != errOwn {
					t.Errorf("error %v; want the cause", err)
				}
				if _, err := a.Exec(ctx, alloc, TaskName, sh("true"), nil, nil, nil); err == nil {
					t.Error("an exec with an ended context returned no error")
				}
			})
			if driver == Exec {
				return // Nomad does not answer that; see Agent.Exec
			}
			t.Run("missing program", func(t *testing.T) {
				if code, err := a.Exec(ctx, alloc, TaskName, []string{"/no/such"}, nil, nil, nil); err == nil {
					t.Errorf("code %d without an error", code)
				}
			})
		})
	}
}

// starter is closed by the first write.
type starter chan struct{}

func (s starter) Write(b []byte) (int, error) {
	close(s)
	return len(b), nil
}

// TestExecUnanswered gives up on an agent that answers nothing.
func TestExecUnanswered(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	ctx := testkit.Context(t)
	a := Start(t, Options{Dev: true})
	alloc, err := a.Run(ctx, sleeper(RawExec))
	if err != nil {
		t.Fatal(err)
	}
	freeze(t, a)
	if code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/true"}, nil, nil, nil); err == nil {
		t.Errorf("code %d from a frozen agent", code)
	}
	if ctx.Err() != nil {
		t.Error("it gave up with its caller only")
	}
	a.Kill()
}

// TestExecUsers says who runs the commands: the same as the task.
func TestExecUsers(t *testing.T) {
	testkit.Soak(t, "agents of its own")
	t.Parallel()
	ctx := testkit.Context(t)
	a := Start(t, Options{Dev: true})
	if !a.HasExec() {
		testkit.Lacking(t, "the exec driver needs control groups")
	}
	for _, c := range []struct{ driver, user, want string }{
		{RawExec, "", "0"},
		{Exec, "", "65534"},
		{Exec, ContainerRoot, "0"},
	} {
		task := sleeper(c.driver)
		task.User = c.user
		alloc, err := a.Run(ctx, task)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code, err := a.Exec(ctx, alloc, TaskName, []string{"/bin/sh", "-c", "id -u"}, nil, &out, nil)
		if err != nil || code != 0 || strings.TrimSpace(out.String()) != c.want {
			t.Errorf("%s as %q: code %d, error %v, uid %q; want %s", c.driver, c.user, code, err, &out, c.want)
		}
	}
}
