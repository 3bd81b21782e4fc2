package memory

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

// worldEnv makes the test binary a world.
const worldEnv = "SLIPWAY_TEST_WORLD"

// startWorld starts a world as a process of its own and waits until it is ready.
func startWorld(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), worldEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing to do if it has ended
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "world at unix:") {
		t.Fatalf("the world said %q, %v", line, err)
	}
	return cmd
}

// socketPath is short enough for a socket, unlike those of t.TempDir.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "world")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "s")
}

func openProxy(t *testing.T, socket string, workers ...string) sdk.Runtime {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	cfg := sdk.Config{Plugin: sdk.Block{Name: "memory", Values: []byte(`{"world": "unix:` + socket + `"}`)}}
	for _, name := range workers {
		cfg.Workers = append(cfg.Workers, sdk.Block{Name: name})
	}
	rt, err := Plugin().Open(ctx, cfg)
	must(t, err)
	t.Cleanup(rt.(*proxy).close)
	return rt
}

func openWorker(t *testing.T, rt sdk.Runtime, name string) sdk.Worker {
	t.Helper()
	w, err := rt.Worker(name)
	must(t, err)
	return w
}

func statusOf(t *testing.T, w sdk.Worker) sdk.Status {
	t.Helper()
	s, err := w.Status(t.Context())
	must(t, err)
	return s
}

func TestWorldOutlivesItsPlugins(t *testing.T) {
	socket := socketPath(t)
	before := openProxy(t, socket, "w", "other") // nothing is dialled before it is needed
	w := openWorker(t, before, "w")
	if s := statusOf(t, w); s.Health != sdk.Away || !strings.Contains(s.Reason, socket) {
		t.Errorf("without a world: %+v", s)
	}
	wantError(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t"}, nil), sdk.Unavailable, nil)

	world := startWorld(t, "--socket", socket, "--worker", "w", "--memory", "64MiB")
	first := statusOf(t, w)
	if first.Health != sdk.Healthy || first.Capacity.DiskBytes != 64<<20 || !first.Has(sdk.FeatureFileRead) || first.Has(sdk.FeatureTTYResize) ||
		first.Has(sdk.FeatureVolatile) {
		t.Errorf("with a world: %+v", first)
	}
	if s := statusOf(t, openWorker(t, before, "other")); s.Health != sdk.Away || !strings.Contains(s.Reason, "other") {
		t.Errorf("a worker that the world does not have: %+v", s)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}

	// One plugin starts a process, another one ends it.
	createVolume(t, w, "v")
	must(t, w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t", Mounts: []sdk.Mount{{Volume: "v", Path: "/v"}}}, nil))
	spec := script("p", "echo one; read line; echo two $line | tee /v/f")
	spec.Stdin = true
	must(t, w.StartProcess(t.Context(), "c", spec))
	before.(*proxy).close()
	wantError(t, w.SealVolume(t.Context(), "v"), sdk.Unavailable, nil)
	w = openWorker(t, openProxy(t, socket, "w"), "w")
	if got := follow(t, w, "c", "p", sdk.Follow{Stdin: strings.NewReader("x\n")}); got.stdout != "one\ntwo x\n" || got.exit.Code != 0 {
		t.Errorf("got %+v", got)
	}
	var content bytes.Buffer
	must(t, sdk.ReadFile(t.Context(), w, first, "v", "f", &content))
	if content.String() != "two x\n" {
		t.Errorf("the file has %q", &content)
	}

	// A world that dies takes everything with it, and a new one says so by its incarnation.
	ended := make(chan error, 1)
	spec = script("q", "echo ready; sleep 1000")
	must(t, w.StartProcess(t.Context(), "c", spec))
	go func() {
		ended <- w.FollowProcess(t.Context(), "c", "q", 0, sdk.Follow{
			Output: func([]sdk.Record) error { return world.Process.Kill() },
		})
	}()
	wantError(t, <-ended, sdk.Unavailable, nil)
	_ = world.Wait()
	if s := statusOf(t, w); s.Health != sdk.Away {
		t.Errorf("after the world was killed: %+v", s)
	}
	world = startWorld(t, "--socket", socket, "--worker", "w")
	if s := statusOf(t, w); s.Health != sdk.Healthy || s.ContainerIncarnation == first.ContainerIncarnation {
		t.Errorf("after the world was started again: %+v, before %+v", s, first)
	}
	if got := containers(t, w, sdk.Filter{}); len(got) != 0 {
		t.Errorf("the new world has %v", got)
	}

	must(t, world.Process.Signal(syscall.SIGTERM))
	if err := world.Wait(); err != nil {
		t.Errorf("ended by SIGTERM: %v", err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(socket)); err != nil || len(left) != 0 {
		t.Errorf("something is left: %v, %v", left, err)
	}
}

func TestOneWorldAtASocket(t *testing.T) {
	socket := socketPath(t)
	startWorld(t, "--socket", socket, "--worker", "w")
	w := openWorker(t, openProxy(t, socket, "w"), "w")
	first := statusOf(t, w)
	if err := World(t.Context(), socket, []string{"w"}, Options{}, new(bytes.Buffer)); err == nil {
		t.Error("a second world serves on the same socket")
	}
	if s := statusOf(t, w); s.ContainerIncarnation != first.ContainerIncarnation {
		t.Errorf("the first world was disturbed: %+v", s)
	}
}

func TestWorldKeepsItsHandsOffOtherFiles(t *testing.T) {
	path := socketPath(t)
	must(t, os.WriteFile(path, []byte("precious"), 0o644))
	if err := World(t.Context(), path, []string{"w"}, Options{}, new(bytes.Buffer)); err == nil {
		t.Error("a file was replaced by a socket")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

func TestWorldCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--socket", "/s"}, {"--worker", "w"}, {"--socket", "/s", "--worker", "w", "extra"},
		{"--socket", "/s", "--worker", "w", "--memory", "much"}, {"--socket", "/s", "--worker", "w", "--memory", "0"}, {"--socket", "/s", "--worker", "w", "--programs", "maybe"}, {"--no-such-flag"},
	} {
		if err := WorldCommand(t.Context(), args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// However often the lock's file goes away and comes back, one holds it at a time, and nothing is left.
func TestLockIsForOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var holders, taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range testkit.Times(30, 300) {
				unlock, err := lock(path)
				if err != nil {
					continue // held by another
				}
				taken.Add(1)
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				runtime.Gosched()
				holders.Add(-1)
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever had the lock")
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

// Who opened the file before it was removed does not take it for the lock.
func TestLockOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	stale, err := lockFile(path)
	must(t, err)
	defer stale.Close()
	must(t, os.Remove(path))
	unlock, err := lock(path) // of a new file
	must(t, err)
	if _, err := lock(path); err == nil {
		t.Error("two hold the lock")
	}
	must(t, unlock())
}

func TestUsageTellsOfWorlds(t *testing.T) {
	var out strings.Builder
	must(t, WriteUsage(&out))
	for _, want := range []string{"slipway-memory world --socket PATH", "-socket path", "-worker name", "-memory size", `config { world = "unix:PATH" }`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
