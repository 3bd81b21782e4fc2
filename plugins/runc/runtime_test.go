//go:build linux

package runc

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/machine"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

func TestWorker(t *testing.T) {
	needs(t)
	shim := buildShim(t)
	b := newBench(t, Config{Shim: shim})
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("status", func(t *testing.T) {
		s, err := b.w.Status(t.Context())
		if err != nil || s.Health != sdk.Healthy || s.Used.Containers != 0 || s.Capacity.MemoryBytes == 0 || s.ContainerIncarnation == "" {
			t.Errorf("got %+v, %v", s, err)
		}
		for _, f := range []sdk.Feature{sdk.FeatureTTY, sdk.FeatureTTYResize, sdk.FeatureUsers, sdk.FeatureExitOOM, sdk.FeatureLimitsMemory, sdk.FeatureFileRead} {
			if !s.Has(f) {
				t.Errorf("the status lacks %q: %q", f, s.Features)
			}
		}
	})
	t.Run("image", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		image := b.volume("image", true, map[string]string{"rootfs/bin/busybox": string(busybox), "rootfs/bin/sh": string(busybox), "rootfs/mark": "as it was"})
		for _, id := range []string{"i1", "i2"} {
			b.create(id, func(s *sdk.ContainerSpec) { s.Image.Volume = image })
			if got, _ := b.run(id, "busybox cat /mark; echo ', changed' >> /mark", nil); got != "as it was" {
				t.Errorf("container %s of the image reads %q", id, got)
			}
		}
	})
	t.Run("out of memory", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		b.create("m", func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = 32 << 20 })
		_, exit := b.run("m", "exec tail -c 200m /dev/zero", nil)
		if exit.Reason != sdk.ExitOOM || exit.Code != 137 {
			t.Errorf("got %+v", exit)
		}
		if got, _ := b.run("m", "echo fine", nil); got != "fine\n" {
			t.Errorf("afterwards: %q", got)
		}
	})
	t.Run("limits and what the shim needs", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		b.create("n", func(s *sdk.ContainerSpec) { s.Limits = sdk.Resources{PIDs: 100, MemoryBytes: 64 << 20, CPUMillis: 250} })
		got, _ := b.run("n", "cd /sys/fs/cgroup; cat pids/pids.max memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us pids.max memory.max cpu.max 2>/dev/null", nil)
		if want := "164\n100663296\n25000"; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("hermetic", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		b.create("h", func(s *sdk.ContainerSpec) { s.Hermetic = true })
		b.create("o", nil)
		host, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		for id, same := range map[string]bool{"h": false, "o": true} {
			if got, _ := b.run(id, "readlink /proc/self/ns/net", nil); (strings.TrimSpace(got) == host) != same {
				t.Errorf("container %q is in %q, the machine in %q", id, got, host)
			}
		}
	})
	t.Run("users and terminals", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		b.create("u", nil)
		if got, _ := b.run("u", "id -u; id -g; tty", func(s *sdk.ProcessSpec) { s.User, s.TTY = "nobody", &sdk.TTY{} }); !strings.HasPrefix(got, "65534\r\n65534\r\n/dev/pts/") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the shim stays as it is", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		b.create("s", nil)
		if _, exit := b.run("s", "rm -f /slipway/shim; echo other >/slipway/shim", nil); exit.Code == 0 {
			t.Error("root in the container wrote other text in place of its shim")
		}
		if got, _ := b.run("s", "cmp /slipway/shim /proc/1/exe && echo the same", nil); got != "the same\n" {
			t.Errorf("the shim is another one now: %q", got)
		}
	})
	t.Run("gone", func(t *testing.T) {
		b := &bench{t: t, w: b.w, c: b.c}
		b.create("g", nil)
		p := b.start("g", "echo last words >/proc/1/fd/2; echo so far; sleep 3600", nil)
		b.await("g", p, "so far\n")
		if got := b.kill("g"); got.Reason != "its process 1 has ended; it said: last words\n" {
			t.Errorf("listed as %+v", got)
		}
		b.abandoned("g", p, "so far\n")
		spec := sdk.ProcessSpec{ID: "late", Token: sdk.NewToken(), Path: "true"}
		if err := b.w.StartProcess(t.Context(), "g", spec); !errors.Is(err, sdk.ReasonDead) {
			t.Errorf("starting in it: %v", err)
		}
	})
	t.Run("not everywhere can be mounted", func(t *testing.T) {
		v := (&bench{t: t, w: b.w}).volume("anywhere", false, nil)
		for _, path := range []string{"/slipway", "/slipway/shim/x", "/proc", "/dev/shm"} {
			err := b.w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "x", Token: sdk.NewToken(), Mounts: []sdk.Mount{{Volume: v, Path: path}}}, nil)
			if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonPath) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

// TestRestart finds everything again by another runtime on the same directory, also a creation that was cut off.
func TestRestart(t *testing.T) {
	needs(t)
	shim := buildShim(t)
	b := newBench(t, Config{Shim: shim})
	v := b.volume("v", true, map[string]string{"file": "content"})
	spec := b.create("c", func(s *sdk.ContainerSpec) {
		s.Labels = map[string]string{"a": "b"}
		s.Mounts = []sdk.Mount{{Volume: v, Path: "/v", ReadOnly: true}}
	})
	p := b.start("c", "read line; cat /v/file; exit 3", func(s *sdk.ProcessSpec) { s.Stdin = true })

	cut := sdk.ContainerSpec{ID: "cut", Token: sdk.NewToken()}
	ctx, cancel := context.WithCancel(t.Context())
	err := b.w.CreateContainer(ctx, cut, func(p sdk.Progress) {
		if p.Phase == "starting" { // as a kill of the plugin here would leave it
			kept := filepath.Join(b.c.State, "kept")
			if err := volumedir.Copy(t.Context(), filepath.Join(b.c.State, "containers", "cut"), kept); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a cancelled creation: %v", err)
	}
	if err := os.Rename(filepath.Join(b.c.State, "kept"), filepath.Join(b.c.State, "containers", "cut")); err != nil {
		t.Fatal(err)
	}

	again := newBench(t, b.c)
	again.n = b.n
	states := map[sdk.ContainerID]sdk.ContainerInfo{}
	if err := again.w.ListContainers(t.Context(), sdk.Filter{}, func(i sdk.ContainerInfo) error { states[i.ID] = i; return nil }); err != nil {
		t.Fatal(err)
	}
	if c := states["c"]; c.State != sdk.ContainerReady || c.Token != spec.Token || c.Labels["a"] != "b" || states["cut"].State != sdk.ContainerCreating {
		t.Errorf("listed are %+v", states)
	}
	if err := again.w.CreateContainer(t.Context(), spec, nil); err != nil {
		t.Errorf("making it again: %v", err)
	}
	if err := again.w.CreateContainer(t.Context(), cut, nil); err != nil {
		t.Errorf("completing the other: %v", err)
	}
	if got, _ := again.run("cut", "echo whole", nil); got != "whole\n" {
		t.Errorf("the completed one writes %q", got)
	}
	var out bytes.Buffer
	var exit sdk.Exit
	err = again.w.FollowProcess(t.Context(), "c", p, 0, sdk.Follow{
		Stdin:  strings.NewReader("go\n"),
		Output: func(r []sdk.Record) error { out.Write(r[0].Data); return nil },
		Exit:   func(e sdk.Exit) error { exit = e; return nil },
	})
	if err != nil || out.String() != "content" || exit.Code != 3 {
		t.Errorf("the process from before: %q, %+v, %v", out.String(), exit, err)
	}
	first, err1 := b.w.Status(t.Context())
	second, err2 := again.w.Status(t.Context())
	if err1 != nil || err2 != nil || first.VolumeIncarnation != second.VolumeIncarnation || first.ContainerIncarnation != second.ContainerIncarnation {
		t.Errorf("incarnations %+v and %+v, errors %v and %v", first, second, err1, err2)
	}
}

// TestRootfs: a container without an image has a copy of the operator's directory, as that is now.
func TestRootfs(t *testing.T) {
	needs(t)
	rootfs := t.TempDir()
	if err := machine.Busybox(t.Context(), rootfs); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, Config{Shim: buildShim(t), Rootfs: rootfs})
	for _, mark := range []string{"first", "second"} {
		if err := os.WriteFile(filepath.Join(rootfs, "mark"), []byte(mark), 0o644); err != nil {
			t.Fatal(err)
		}
		b.create(mark, nil)
		if got, _ := b.run(mark, "cat /mark; echo changed >/mark", nil); got != mark {
			t.Errorf("the container reads %q in its root, want %q", got, mark)
		}
	}
}

// TestSettings tells what is wrong with them.
func TestSettings(t *testing.T) {
	needs(t)
	shim, file := buildShim(t), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{State: filepath.Join(t.TempDir(), "state"), Shim: shim}
	for what, change := range map[string]func(*Config){
		`state "here" must be an absolute path`: func(c *Config) { c.State = "here" },
		"not a directory":                       func(c *Config) { c.State = filepath.Join(file, "below") },
		`worker "here": runc: exec: "norunc"`:   func(c *Config) { c.Runc = "norunc" },
		"there is no program /none/shim":        func(c *Config) { c.Shim = "/none/shim" },
		`"root", must be the absolute path`:     func(c *Config) { c.Rootfs = "root" },
		"must be the absolute path of a dir":    func(c *Config) { c.Rootfs = file },
	} {
		c := good
		change(&c)
		functions, options, err := open("here", c)
		if err == nil {
			_, err = machine.Open(t.Context(), "here", functions, options)
		}
		if !errors.Is(err, sdk.Invalid) || !errors.Is(err, sdk.ReasonConfig) || !strings.Contains(err.Error(), what) {
			t.Errorf("want %s: got %v", what, err)
		}
	}
	if info, err := os.Stat(good.State); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state is not for root alone: %v, %v", info, err)
	}
}

// TestDisk: what is written beside volumes is bounded where a bound is asked for, and what the shim keeps is not counted; a machine
// that cannot bound it does not say that it can, and refuses to.
func TestDisk(t *testing.T) {
	needs(t)
	b := newBench(t, Config{Shim: buildShim(t)})
	b.create("bounded", func(s *sdk.ContainerSpec) { s.Limits.DiskBytes = 2 << 20 })
	p := b.start("bounded", "head -c 8000000 /dev/zero", nil)
	testkit.Until(t, "the process has ended, and nobody has read what it wrote", func() bool {
		all, err := b.w.ListProcesses(t.Context(), "bounded")
		return err != nil || all[0].Exit != nil
	})
	if got, _ := b.follow("bounded", p); len(got) != 8_000_000 {
		t.Errorf("of 8,000,000 bytes of output %d came", len(got))
	}
	if got, exit := b.run("bounded", "head -c 8000000 /dev/zero > /tmp/big 2>/dev/null; stat -c %s /tmp/big", nil); exit.Code != 0 || len(got) > len("2097152\n") {
		t.Errorf("%q bytes were written to the disk, %+v", got, exit)
	}
	p = b.start("bounded", "echo so far; sleep 3600", nil)
	b.await("bounded", p, "so far\n")
	b.kill("bounded")
	b.abandoned("bounded", p, "so far\n")

	_, w, _ := changedRuntime(t, Config{Shim: b.c.Shim}, func(f *machine.Functions) {
		create := f.Create
		f.Create = func(ctx context.Context, c machine.Container) error {
			if c.Limits.DiskBytes != 0 {
				return errors.New("there is no tmpfs on this machine")
			}
			return create(ctx, c)
		}
	})
	s, err := w.Status(t.Context())
	if err != nil || s.Health != sdk.Healthy || s.Has(sdk.FeatureLimitsDisk) || !s.Has(sdk.FeatureLimitsMemory) {
		t.Errorf("the status is %+v, %v", s, err)
	}
	err = w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t", Limits: sdk.Resources{DiskBytes: 1 << 20}}, nil)
	if e, ok := errors.AsType[*sdk.Error](err); !ok || e.Class != sdk.Unsupported || e.Feature != sdk.FeatureLimitsDisk {
		t.Errorf("a limit there: %v", err)
	}
}
