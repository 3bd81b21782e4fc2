//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
)

// TestGone ends a container from outside: what its processes left is told, and nothing else happens in it.
func TestGone(t *testing.T) {
	needs(t)
	state := newState(t)
	b := newBench(t, state)
	b.create("c", nil)
	b.start("c", "ended", "echo whole; exit 7")
	if j, err := b.follow("c", "ended", nil); err != nil || j.exit.Code != 7 {
		t.Fatalf("%+v, %v", j, err)
	}
	b.start("c", "runs", "echo begun; sleep 3600; echo never")
	process := first(machine.Container{Dir: filepath.Join(state, "containers", "c", "own")})
	if _, runs, err := process.PID(); err != nil || !runs {
		t.Fatalf("it does not run: %v", err)
	}
	j, err := b.follow("c", "runs", func(out string) {
		if out == "begun\n" {
			if err := process.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	if !errors.Is(err, sdk.ReasonAbandoned) || j.out != "begun\n" || j.opened != 1 {
		t.Errorf("the follower got %+v, %v", j, err)
	}
	if j, err := b.followFrom(6, "c", "ended", nil); err != nil || j.exit.Code != 7 {
		t.Errorf("following what had ended: %+v, %v", j, err)
	}
	if j, err := b.follow("c", "never-was", nil); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("following what never was: %+v, %v", j, err)
	}
	all, err := b.ListProcesses(t.Context(), "c")
	states := make(map[sdk.ProcessID]sdk.ProcessState)
	for _, p := range all {
		states[p.ID] = p.State
	}
	if err != nil || len(states) != 2 || states["ended"] != sdk.ProcessExited || states["runs"] != sdk.ProcessAbandoned {
		t.Errorf("listed are %v, %v", states, err)
	}
	for id, want := range map[sdk.ProcessID]error{"ended": nil, "runs": sdk.ReasonDead, "never-was": sdk.ReasonDead} {
		if err := b.SignalProcess(t.Context(), "c", id, sdk.KILL); !errors.Is(err, want) {
			t.Errorf("signalling %s: %v, want %v", id, err, want)
		}
	}
	spec := sdk.ProcessSpec{ID: "late", Token: sdk.NewToken(), Path: "true"}
	if err := b.StartProcess(t.Context(), "c", spec); !errors.Is(err, sdk.ReasonDead) {
		t.Errorf("starting in it: %v", err)
	}
	if got := b.list(t.Context())["c"]; got.State != sdk.ContainerGone || got.Reason == "" {
		t.Errorf("listed as %+v", got)
	}
	if err := b.DestroyContainer(t.Context(), "c"); err != nil {
		t.Error(err)
	}
	if _, err := b.ListProcesses(t.Context(), "c"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestOtherStartOfTheMachine finds containers of before gone, whatever has their first process's number now.
func TestOtherStartOfTheMachine(t *testing.T) {
	needs(t)
	state := newState(t)
	b := newBench(t, state)
	b.create("c", nil)
	b.start("c", "p", "sleep 3600")
	record := filepath.Join(state, "containers", "c", "record.json")
	text, err := os.ReadFile(record)
	var rec map[string]any
	if err = errors.Join(err, json.Unmarshal(text, &rec)); err != nil {
		t.Fatal(err)
	}
	was := rec["Boot"]
	rec["Boot"] = "another"
	write := func() {
		text, err := json.Marshal(rec)
		if err := errors.Join(err, os.WriteFile(record, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write()
	again := newBench(t, state)
	if got := again.list(t.Context())["c"]; got.State != sdk.ContainerGone {
		t.Errorf("listed as %+v", got)
	}
	all, err := again.ListProcesses(t.Context(), "c")
	if err != nil || len(all) != 1 || all[0].State != sdk.ProcessAbandoned {
		t.Errorf("its processes are %+v, %v", all, err)
	}
	rec["Boot"] = was
	write() // for it does run
}

// TestImages makes containers of images that lead astray.
func TestImages(t *testing.T) {
	needs(t)
	b := newBench(t, newState(t))
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	image := b.volume("image", file("rootfs/bin/sh", string(busybox)), file("rootfs/mark", "as it was"), link("rootfs/proc", outside), link("rootfs/slipway", outside),
		file("rootfs/dev", "no directory"), link("rootfs/work", "/data/deep"), link("rootfs/up", "../../../../../../../.."+outside), link("rootfs/circle", "circle"))
	inner := b.volume("inner", file("f", "inner"))
	other := b.volume("other", file("f", "other"))
	for _, id := range []sdk.ContainerID{"i1", "i2"} {
		b.create(id, func(s *sdk.ContainerSpec) {
			s.Image.Volume, s.Dir = image, "/work/dir"
			s.Mounts = []sdk.Mount{{Volume: inner, Path: "/work/x", ReadOnly: true}, {Volume: other, Path: "/up/y", ReadOnly: true}}
		})
		want := fmt.Sprintf("as it was inner other /data/deep/dir /data/deep %s", outside)
		if got := b.run(id, fmt.Sprintf(`read -r a </mark; read -r b </data/deep/x/f; read -r c <%s/y/f; echo "$a $b $c $PWD" $(cd -P /work; pwd) $(cd -P /up; pwd); echo changed >/mark`, outside)); got != want+"\n" {
			t.Errorf("in %s: %q, want %q", id, got, want)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside there are now %v, %v", left, err)
	}
	for what, spec := range map[string]sdk.ContainerSpec{
		"a circle of links":          {Mounts: []sdk.Mount{{Volume: inner, Path: "/circle/x", ReadOnly: true}}},
		"a file on the way":          {Mounts: []sdk.Mount{{Volume: inner, Path: "/mark/x", ReadOnly: true}}},
		"two at one place":           {Mounts: []sdk.Mount{{Volume: inner, Path: "/data/deep", ReadOnly: true}, {Volume: other, Path: "/work", ReadOnly: true}}},
		"the shim's own place":       {Mounts: []sdk.Mount{{Volume: inner, Path: "/slipway/x", ReadOnly: true}}},
		"a place in a sealed volume": {Mounts: []sdk.Mount{{Volume: inner, Path: "/m", ReadOnly: true}, {Volume: other, Path: "/m/n", ReadOnly: true}}},
		"a dir that is a file":       {Dir: "/mark"},
	} {
		spec.ID, spec.Token, spec.Image.Volume = "bad", sdk.NewToken(), image
		if err := b.CreateContainer(t.Context(), spec, nil); !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonPath) {
			t.Errorf("%s: %v", what, err)
		}
	}
	err = b.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "bad", Token: "t", Image: sdk.Image{Volume: inner}}, nil)
	if !errors.Is(err, sdk.ReasonImage) {
		t.Errorf("what is no image: %v", err)
	}
	if all := b.list(t.Context()); len(all) != 2 {
		t.Errorf("listed are %+v", all)
	}
}

// TestHermetic gives a network of its own, and the worker names what it can do.
func TestHermetic(t *testing.T) {
	needs(t)
	b := newBench(t, newState(t))
	host, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for id, same := range map[sdk.ContainerID]bool{"hermetic": false, "open": true} {
		b.create(id, func(s *sdk.ContainerSpec) { s.Hermetic = !same })
		if got := b.run(id, "readlink /proc/self/ns/net"); (strings.TrimSpace(got) == host) != same {
			t.Errorf("container %q is in %q, the machine in %q", id, got, host)
		}
	}
	s, err := b.Status(t.Context())
	if err != nil || s.Health != sdk.Healthy || s.Used.Containers != 2 {
		t.Errorf("status %+v, %v", s, err)
	}
	for _, f := range []sdk.Feature{sdk.FeatureNetworkNone, sdk.FeatureImageVolume, sdk.FeatureTTY, sdk.FeatureTTYResize, sdk.FeatureUsers, sdk.FeatureFileRead} {
		if !slices.Contains(s.Features, f) {
			t.Errorf("it does not name %q: %q", f, s.Features)
		}
	}
}

// The environment of this program where it is a plugin that is killed while it makes a container.
const (
	cutState = "CHROOT_TEST_STATE"
	cutShim  = "CHROOT_TEST_SHIM"
	cutPhase = "CHROOT_TEST_PHASE"
)

func cutSpec() sdk.ContainerSpec { return sdk.ContainerSpec{ID: "cut", Token: "token"} }

// cut makes a container, says in which phase it is, and waits there for its end if told to.
func cut() {
	unix.CloseOnExec(3) // see kill
	phase := func(name string) {
		fmt.Println(name)
		if name == os.Getenv(cutPhase) {
			_, _ = io.Copy(io.Discard, os.Stdin) // until whoever started this kills it, or is killed
		}
	}
	f, o, err := open("here", settings{State: os.Getenv(cutState), Shim: os.Getenv(cutShim)})
	f.Create = func(ctx context.Context, c machine.Container) error {
		err := create(ctx, c)
		phase("created")
		return err
	}
	o.Log = slog.New(slog.DiscardHandler)
	w, err2 := machine.Open(context.Background(), "here", f, o)
	if err = errors.Join(err, err2); err == nil {
		fmt.Println("open")
		err = w.CreateContainer(context.Background(), cutSpec(), func(p sdk.Progress) { phase(p.Phase) })
	}
	fmt.Println("done", err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestKilledInCreate kills the plugin while it makes a container, at known places and at others, and has the next one complete it.
func TestKilledInCreate(t *testing.T) {
	needs(t)
	shim := theShim(t)
	phases := []string{"copying", "starting", "created"}
	for range 6 {
		phases = append(phases, "")
	}
	for i, phase := range phases {
		t.Run(fmt.Sprintf("%d%s", i, phase), func(t *testing.T) {
			state := newState(t)
			kill(t, phase, cutState+"="+state, cutShim+"="+shim, cutPhase+"="+phase)
			b := newBench(t, state)
			all := b.list(t.Context())
			if c, there := all["cut"]; phase != "" && (!there || c.State != sdk.ContainerCreating || c.Token != "token") {
				t.Errorf("listed are %+v", all)
			} else if there {
				other := cutSpec()
				other.Token = "other"
				if err := b.CreateContainer(t.Context(), other, nil); !errors.Is(err, sdk.AlreadyExists) {
					t.Errorf("another token: %v", err)
				}
			}
			if c := all["cut"]; c.State == sdk.ContainerCreating {
				if _, err := b.ListProcesses(t.Context(), "cut"); !errors.Is(err, sdk.ReasonCreating) {
					t.Errorf("what is half made says %v", err)
				}
			}
			if err := b.CreateContainer(t.Context(), cutSpec(), nil); err != nil {
				t.Fatal(err)
			}
			if got := b.run("cut", "echo whole"); got != "whole\n" {
				t.Errorf("it writes %q", got)
			}
		})
	}
}

// kill starts this program as a plugin that makes a container and kills it in a phase, or sometime.
func kill(t *testing.T, phase string, env ...string) {
	t.Helper()
	plugin := exec.CommandContext(t.Context(), os.Args[0])
	plugin.Env = append(os.Environ(), env...)
	out, err := plugin.StdoutPipe()
	if err == nil {
		_, err = plugin.StdinPipe() // it waits for that
	}
	// A child that it has begun and that is not a program of its own yet holds its locks for a moment longer: the pipe ends with the last.
	ended, held, err2 := os.Pipe()
	if err = errors.Join(err, err2); err == nil {
		defer ended.Close()
		plugin.ExtraFiles = []*os.File{held}
	}
	if err == nil {
		err = plugin.Start()
	}
	held.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer io.Copy(io.Discard, ended)
	defer plugin.Wait()
	defer plugin.Process.Kill()
	var line string
	for line != cmp.Or(phase, "open") {
		if _, err := fmt.Fscanln(out, &line); err != nil {
			t.Fatal(err)
		}
	}
	if phase == "" {
		<-time.After(rand.N(100 * time.Millisecond)) // where it will be then is the point
	}
}

// TestTwoPlugins has two workers on one directory make, use and destroy the same containers.
func TestTwoPlugins(t *testing.T) {
	needs(t)
	state := newState(t)
	a, b := newBench(t, state), newBench(t, state)
	spec := sdk.ContainerSpec{ID: "c", Token: "t"}
	made := make(chan error, 2)
	for _, w := range []bench{a, b} {
		go func() { made <- w.CreateContainer(t.Context(), spec, nil) }()
	}
	if err := errors.Join(<-made, <-made); err != nil {
		t.Fatal(err)
	}
	if x, y := a.run("c", "echo $PPID; echo one >>/mark"), b.run("c", "cat /mark"); x == "" || y != "one\n" {
		t.Errorf("one says %q, the other %q", x, y)
	}
	if err := a.DestroyContainer(t.Context(), "c"); err != nil {
		t.Error(err)
	}
	if _, err := b.ListProcesses(t.Context(), "c"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("the other says %v", err)
	}
}
