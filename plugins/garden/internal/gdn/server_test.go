//go:build linux

package gdn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// machine is a real server, with a container for the tests that need nothing but one.
func machine(t *testing.T) (*gardentest.Servers, *Server) {
	t.Helper()
	servers := gardentest.Start(t, gardentest.Options{})
	s, err := New(Config{Address: servers.Garden})
	if err != nil {
		t.Fatal(err)
	}
	return servers, s
}

func TestServer(t *testing.T) {
	servers, s := machine(t)
	ctx := testkit.Context(t)
	if err := s.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	root := servers.Volume(t, "image", gardentest.Busybox(t), false) + "/rootfs"
	spec := garden.ContainerSpec{Handle: "one", RootFSPath: "raw://" + root, Properties: garden.Properties{"slipway:id": "one", "a.b/c_d-e": "x=y&z", "a.b_c": "x"}}
	if err := s.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	t.Run("a handle twice", func(t *testing.T) {
		err := s.Create(ctx, spec)
		if _, ok := errors.AsType[*Refusal](err); !ok || !errors.Is(err, sdk.Internal) {
			t.Errorf("%v, want a refusal", err)
		}
	})
	t.Run("properties", func(t *testing.T) {
		if err := s.SetProperty(ctx, "one", "slipway:ready", "1"); err != nil {
			t.Fatal(err)
		}
		p, err := s.Properties(ctx, "one")
		if err != nil || p["slipway:ready"] != "1" || p["a.b/c_d-e"] != "x=y&z" {
			t.Errorf("%v, %v", p, err)
		}
		for want, by := range map[bool]garden.Properties{true: {"a.b_c": "x"}, false: {"a.b_c": "y"}} {
			handles, err := s.List(ctx, by)
			if err != nil || slices.Contains(handles, "one") != want {
				t.Errorf("listing by %v: %v, %v", by, handles, err)
			}
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		if _, err := s.Properties(ctx, "two"); !sdk.IsNotFound(err, sdk.KindContainer) {
			t.Errorf("properties: %v", err)
		}
		if err := s.SetProperty(ctx, "two", "a", "b"); !sdk.IsNotFound(err, sdk.KindContainer) {
			t.Errorf("setting a property: %v", err)
		}
		if _, err := s.Exec(ctx, "two", garden.ProcessSpec{Path: "/bin/true"}, nil, io.Discard, io.Discard); !sdk.IsNotFound(err, sdk.KindContainer) {
			t.Errorf("a command: %v", err)
		}
		if err := s.Destroy(ctx, "two"); err != nil {
			t.Errorf("destroying: %v", err)
		}
	})
	t.Run("commands", func(t *testing.T) { testCommands(t, s) })
	t.Run("a command outlives its caller", func(t *testing.T) { testCancel(t, s) })
	t.Run("the server goes under a command", func(t *testing.T) {
		ctx := testkit.Context(t)
		stdin, out := pipe(t), pipe(t)
		done := make(chan error, 1)
		go func() {
			_, err := s.Exec(ctx, "one", garden.ProcessSpec{Path: "/bin/sh", Args: []string{"-c", "echo ready; cat"}}, stdin.r, out.w, io.Discard)
			done <- err
		}()
		if line, err := io.ReadAll(io.LimitReader(out.r, 6)); string(line) != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		servers.KillGarden()
		if err := <-done; !errors.Is(err, sdk.Unavailable) || !strings.Contains(err.Error(), servers.Garden) {
			t.Errorf("%v, want Unavailable with the server's address", err)
		}
		if err := s.Ping(ctx); !errors.Is(err, sdk.Unavailable) || !errors.Is(err, errDial) {
			t.Errorf("a server that is away: %v", err)
		}
		servers.StartGarden(t)
		if err := s.Ping(ctx); err != nil {
			t.Error(err)
		}
		if there, err := s.Has(ctx, "one"); !there || err != nil {
			t.Errorf("after a restart the container is there: %v, %v", there, err)
		}
	})
	if err := s.Destroy(ctx, "one"); err != nil {
		t.Error(err)
	}
	if left := servers.Containers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func testCommands(t *testing.T, s *Server) {
	ctx := testkit.Context(t)
	var stdout, stderr bytes.Buffer
	if _, err := s.Exec(ctx, "one", garden.ProcessSpec{Path: "/bin/sh", Args: []string{"-c", "echo out; echo err >&2; exit 7"}, User: "0"}, nil, &stdout, &stderr); err != nil {
		t.Error(err)
	}
	if stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
	stdin := pipe(t)
	go func() {
		io.WriteString(stdin.w, strings.Repeat("0123456789abcde\n", 1<<16))
		stdin.w.Close()
	}()
	stdout.Reset()
	if _, err := s.Exec(ctx, "one", garden.ProcessSpec{Path: "/bin/sh", Args: []string{"-c", "sha256sum"}}, stdin.r, &stdout, io.Discard); err != nil {
		t.Error(err)
	}
	if want := "107b265e8f4929e55502f5983fa1aeecf470db365011336380497fbf43603339  -\n"; stdout.String() != want {
		t.Errorf("a MiB of stdin came to %q, want %q", stdout.String(), want)
	}
	var refusal *Refusal
	if _, err := s.Exec(ctx, "one", garden.ProcessSpec{Path: "/not/there"}, nil, io.Discard, io.Discard); !errors.As(err, &refusal) {
		t.Errorf("an executable that is missing: %v", err)
	}
}

// testCancel ends an Exec whose command neither reads nor ends: it must return, leave its stdin alone, and leave the command running.
func testCancel(t *testing.T, s *Server) {
	ctx, cancel := context.WithCancel(testkit.Context(t))
	stdin, out := pipe(t), pipe(t)
	done := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, "one", garden.ProcessSpec{Path: "/bin/sh", Args: []string{"-c", "echo ready; exec sleep 3600"}}, stdin.r, out.w, io.Discard)
		done <- err
	}()
	if line, err := io.ReadAll(io.LimitReader(out.r, 6)); string(line) != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
	if _, err := stdin.w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = stdin.r.SetReadDeadline(time.Time{})
	var b [1]byte
	if _, err := stdin.r.Read(b[:]); err != nil || b[0] != 'x' {
		t.Errorf("what came into stdin after the end was taken: %v", err)
	}
	var ps bytes.Buffer
	if _, err := s.Exec(testkit.Context(t), "one", garden.ProcessSpec{Path: "/bin/sh", Args: []string{"-c", "ps -o args"}}, nil, &ps, io.Discard); err != nil || !strings.Contains(ps.String(), "sleep 3600") {
		t.Errorf("%v; the command is gone:\n%s", err, ps.String())
	}
}

type pipes struct{ r, w *os.File }

func pipe(t *testing.T) pipes {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return pipes{r, w}
}
