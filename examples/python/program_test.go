//go:build linux

// Package python holds no Go but this test: the plugin here is written in Python, without an SDK.
package python

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// python is Debian's own interpreter, for which its packages are.
const python = "/usr/bin/python3"

// needs skips where the plugin cannot run, but not in CI, where that would hide everything.
func needs(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		testkit.Lacking(t, "making containers needs root")
	}
	if _, err := exec.LookPath("protoc"); err != nil {
		testkit.Lacking(t, "%v (make deps installs Debian's protobuf-compiler)", err)
	}
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		testkit.Lacking(t, "%v (make deps installs Debian's python3-grpcio and python3-protobuf)\n%s", err, out)
	}
}

// install puts the plugin into a directory of its own, as README.md says, so that nothing is written beside its source.
func install(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sources, err := filepath.Glob("*.py")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "./generate.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("generate.sh: %v\n%s", err, out)
	}
	return filepath.Join(dir, "plugin.py")
}

// newState makes a directory for a worker; at the end nothing may be left in it, nor run because of it.
func newState(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		for _, kind := range []string{"containers", "volumes", "trash"} {
			if left, err := os.ReadDir(filepath.Join(dir, kind)); err != nil || len(left) > 0 {
				t.Errorf("%s: left %v, %v", kind, left, err)
			}
		}
		commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Error(err)
		}
		for _, c := range commands {
			if line, err := os.ReadFile(c); err == nil && strings.Contains(string(line), dir) {
				t.Errorf("still running: %q", line)
			}
		}
	})
	return dir
}

// program is the plugin with one worker, in processes of its own.
func program(t *testing.T, state string) conformance.Target {
	t.Helper()
	target := conformance.Command(conformance.Program{
		Path:    install(t),
		Plugin:  sdk.Block{Name: "python"},
		Workers: []sdk.Block{{Name: "here", Values: json.RawMessage(fmt.Sprintf(`{"state":%q}`, state))}},
		Env:     map[string]string{"PATH": os.Getenv("PATH")},
		Launch:  launch.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))},
	})
	return target
}

// smoke are the cases of the gate: each kind of thing once, and the crashes.
var smoke = []string{"P0*", "X01-*", "I0*", "S11-*", "A0*", "V0*", "C0*", "C20-*", "C21-*", "C23-*", "W20-*", "R01-*", "R04-*", "R10-*", "R18-*", "J01-*", "J05-*", "J08-*", "J11-*", "J13-*", "J15-*"}

// TestConformance holds the plugin to the contract as a host runs it: a process of its own, which is killed in between.
func TestConformance(t *testing.T) {
	needs(t)
	target := program(t, newState(t))
	target.Commands = conformance.LinuxProbe(t)
	options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale()}
	if testing.Short() {
		options.Only = smoke
	}
	conformance.Run(t, target, options)
}

// TestBeyondTheSuite holds what the pages promise and no case asks of a plugin without more features: sparse files are taken, links on the way
// of a path are followed within the volume, and a real-time signal has a name.
func TestBeyondTheSuite(t *testing.T) {
	needs(t)
	ctx := t.Context()
	instance, err := program(t, newState(t)).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer instance.Close()
	w, err := instance.Runtime.Worker("here")
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.CreateVolume(ctx, sdk.VolumeSpec{ID: "v", Token: "t"}))
	defer func() {
		if err := w.DestroyVolume(context.WithoutCancel(ctx), "v"); err != nil {
			t.Error(err)
		}
	}()
	out := func(path string) (string, error) {
		var b bytes.Buffer
		if err := w.StreamOut(ctx, "v", sdk.StreamOut{Path: path}, &b); err != nil {
			return "", err
		}
		r := tar.NewReader(&b)
		if _, err := r.Next(); err != nil {
			return "", err
		}
		data, err := io.ReadAll(r)
		return string(data), err
	}

	dir := t.TempDir()
	want := make([]byte, 4<<20)
	f, err := os.Create(filepath.Join(dir, "f"))
	must(err)
	must(f.Truncate(int64(len(want))))
	for i := range 100 {
		at := 40_000 * i
		_, err := f.WriteAt(want[at:at+copy(want[at:], fmt.Sprint("piece ", i))], int64(at))
		must(err)
	}
	must(f.Close())
	for _, format := range []string{"--format=oldgnu", "--sparse-version=0.0", "--sparse-version=0.1", "--sparse-version=1.0"} {
		archive, err := exec.CommandContext(ctx, "tar", "-c", "-C", dir, "--sparse", "--hole-detection=raw", format, "f").Output()
		must(err)
		if len(archive) > len(want)/2 {
			t.Fatalf("%s: tar makes %d bytes of it, no holes", format, len(archive))
		}
		must(w.StreamIn(ctx, "v", sdk.StreamIn{Path: format}, bytes.NewReader(archive)))
		if got, err := out(format + "/f"); got != string(want) || err != nil {
			t.Errorf("%s: %d bytes came out, %v; want the %d that went in", format, len(got), err, len(want))
		}
	}

	for name, to := range map[string]string{"a/in": "../b", "a/absolute": "/etc", "a/above": "../..", "a/loop": "loop", "b/f": "../a"} {
		must(os.MkdirAll(filepath.Dir(filepath.Join(dir, "links", name)), 0o755))
		must(os.Symlink(to, filepath.Join(dir, "links", name)))
	}
	archive, err := exec.CommandContext(ctx, "tar", "-c", "-C", filepath.Join(dir, "links"), ".").Output()
	must(err)
	must(w.StreamIn(ctx, "v", sdk.StreamIn{}, bytes.NewReader(archive)))
	for _, path := range []string{"a/in/f", "a/in/f/in/f", "a/absolute", "a/loop"} {
		if _, err := out(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"a/absolute/hostname", "a/above/etc", "a/loop/f"} {
		if _, err := out(path); !errors.Is(err, sdk.ReasonPath) {
			t.Errorf("%s: %v, want %v", path, err, sdk.ReasonPath)
		}
	}

	must(w.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t"}, nil))
	defer func() {
		if err := w.DestroyContainer(context.WithoutCancel(ctx), "c"); err != nil {
			t.Error(err)
		}
	}()
	for number, name := range map[int]sdk.Signal{6: "ABRT", 34: "RTMIN+0", 40: "RTMIN+6", 64: "RTMIN+30"} {
		id := sdk.ProcessID(fmt.Sprint("p", number))
		must(w.StartProcess(ctx, "c", sdk.ProcessSpec{ID: id, Token: "t", Path: "sh", Args: []string{"-c", fmt.Sprintf("kill -%d $$", number)}}))
		var exit sdk.Exit
		must(w.FollowProcess(ctx, "c", id, 0, sdk.Follow{
			Acks:   make(chan sdk.Position),
			Output: func([]sdk.Record) error { return nil },
			Exit:   func(e sdk.Exit) error { exit = e; return nil },
		}))
		if exit.Signal != name || exit.Code != 128+number {
			t.Errorf("signal %d: the exit is %+v, want %s", number, exit, name)
		}
	}
}

// TestKeeperKilled ends a container from outside, as a machine that restarts does: what was recorded can still be read, and nothing is
// made up.
func TestKeeperKilled(t *testing.T) {
	needs(t)
	ctx, state := t.Context(), newState(t)
	instance, err := program(t, state).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer instance.Close()
	w, err := instance.Runtime.Worker("here")
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t"}, nil))
	defer func() {
		if err := w.DestroyContainer(context.WithoutCancel(ctx), "c"); err != nil {
			t.Error(err)
		}
	}()
	start := func(id sdk.ProcessID, script string) error {
		return w.StartProcess(ctx, "c", sdk.ProcessSpec{ID: id, Token: "t", Path: "sh", Args: []string{"-c", script}})
	}
	// follow reads to a text, or to the end, without an acknowledgement.
	follow := func(id sdk.ProcessID, until string) (string, *sdk.Exit, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var out strings.Builder
		var exit *sdk.Exit
		err := w.FollowProcess(ctx, "c", id, 0, sdk.Follow{
			Acks: make(chan sdk.Position),
			Output: func(rs []sdk.Record) error {
				for _, r := range rs {
					out.Write(r.Data)
				}
				if until != "" && strings.Contains(out.String(), until) {
					cancel()
				}
				return nil
			},
			Exit: func(e sdk.Exit) error { exit = &e; cancel(); return nil },
		})
		return out.String(), exit, err
	}
	must(start("ended", "echo done; exit 3"))
	if _, exit, err := follow("ended", ""); exit == nil || exit.Code != 3 {
		t.Fatalf("before: exit %+v, %v", exit, err)
	}
	must(start("running", "echo here; exec sleep 3600"))
	follow("running", "here")

	pid, err := os.ReadFile(filepath.Join(state, "containers", "c", "record", "pid"))
	must(err)
	number, _, _ := strings.Cut(string(pid), " ")
	keeper, err := strconv.Atoi(number)
	must(err)
	fd, err := unix.PidfdOpen(keeper, 0)
	must(err)
	defer unix.Close(fd)
	must(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0))
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000); n != 1 {
		t.Fatalf("the keeper does not end: %d, %v", n, err)
	}

	var got []sdk.ContainerInfo
	must(w.ListContainers(ctx, sdk.Filter{}, func(i sdk.ContainerInfo) error { got = append(got, i); return nil }))
	if len(got) != 1 || got[0].State != sdk.ContainerGone {
		t.Errorf("the containers are %+v, want one that is gone", got)
	}
	if err := start("late", "true"); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("starting: %v, want %v", err, sdk.ReasonDead)
	}
	infos, err := w.ListProcesses(ctx, "c")
	must(err)
	states := make(map[sdk.ProcessID]sdk.ProcessState)
	for _, i := range infos {
		states[i.ID] = i.State
	}
	if want := map[sdk.ProcessID]sdk.ProcessState{"ended": sdk.ProcessExited, "running": sdk.ProcessAbandoned}; !maps.Equal(states, want) {
		t.Errorf("the processes are %v, want %v", states, want)
	}
	if out, exit, _ := follow("ended", ""); out != "done\n" || exit == nil || exit.Code != 3 {
		t.Errorf("following what had ended: %q, %+v", out, exit)
	}
	if out, exit, err := follow("running", ""); out != "here\n" || exit != nil || !errors.Is(err, sdk.ReasonAbandoned) {
		t.Errorf("following what was running: %q, %+v, %v; want its output and %v", out, exit, err, sdk.ReasonAbandoned)
	}
	if _, _, err := follow("never", ""); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("following what was never started: %v, want %v", err, sdk.ReasonDead)
	}
}
