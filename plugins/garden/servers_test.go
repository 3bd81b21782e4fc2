//go:build linux

package garden

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"code.cloudfoundry.org/garden"
	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestPlainServers is a pair that can little: a unix socket, no user namespaces, no limits, three containers, no copy-on-write.
func TestPlainServers(t *testing.T) {
	x := newWorld(t, gardentest.Options{Driver: "naive", Unix: true, NoUserNamespaces: true, NoLimits: true, MaxContainers: 3}, nil)
	if !strings.HasPrefix(x.Garden, "unix:///") {
		t.Fatalf("garden at %s", x.Garden)
	}
	status := x.statusOf(t)
	if status.Health != sdk.Healthy {
		t.Fatal(status.Reason)
	}
	t.Run("limits that the server ignores", func(t *testing.T) {
		check := x.unchanged(t)
		for feature, limits := range map[sdk.Feature]sdk.Resources{
			sdk.FeatureLimitsMemory: {MemoryBytes: 1 << 30}, sdk.FeatureLimitsPIDs: {PIDs: 100}, sdk.FeatureLimitsCPU: {CPUMillis: 100}, sdk.FeatureLimitsDisk: {DiskBytes: 1 << 30},
		} {
			if status.Has(feature) {
				t.Errorf("%s is named", feature)
			}
			err := x.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "limited", Token: token, Limits: limits}, nil)
			want(t, err, sdk.Unsupported, "", string(feature))
			if e, ok := errors.AsType[*sdk.Error](err); ok && e.Feature != feature {
				t.Errorf("the feature is %q, want %q", e.Feature, feature)
			}
		}
		check()
	})
	t.Run("defaults that the server ignores", func(t *testing.T) {
		y := x.with(t, func(c *Config) { c.Memory, c.CPU = 1<<30, 500 })
		s := y.statusOf(t)
		if s.Health != sdk.Degraded || s.ContainersAway || s.ContainerIncarnation != status.ContainerIncarnation || !slices.Equal(s.Features, status.Features) {
			t.Errorf("%+v, without defaults it is %+v", s, status)
		}
		for words, named := range map[string]bool{x.Garden: true, `"memory" (limits.memory)`: true, `"cpu" (limits.cpu)`: true, `"pids"`: false} {
			if strings.Contains(s.Reason, words) != named {
				t.Errorf("the reason is %q; %q in it: want %v", s.Reason, words, named)
			}
		}
		y.container(t, sdk.ContainerSpec{ID: "default", Image: sdk.Image{Volume: "image"}}) // it is taken all the same
		y.drop(t, "default")
	})
	x.volume(t, sdk.VolumeSpec{ID: "out"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "one", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "out", Path: "/out"}}})
	t.Run("no user namespaces", func(t *testing.T) {
		if out := x.sh(t, "one", "owner", "id -u; echo x >/out/f; stat -c %u /out /out/f /bin/busybox"); out != "0\n0\n0\n0\n" {
			t.Errorf("in the container: %q", out)
		}
		info, err := os.Stat(filepath.Join(x.VolumesDir(), "live/out/volume/f"))
		if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("outside: %+v, %v", info, err)
		}
	})
	t.Run("the server takes no more", func(t *testing.T) {
		x.container(t, sdk.ContainerSpec{ID: "two", Image: sdk.Image{Volume: "image"}})
		x.container(t, sdk.ContainerSpec{ID: "three", Image: sdk.Image{Volume: "image"}})
		check := x.unchanged(t)
		spec := sdk.ContainerSpec{ID: "four", Token: token, Image: sdk.Image{Volume: "image"}}
		want(t, x.CreateContainer(testkit.Context(t), spec, nil), sdk.Exhausted, "", "max containers reached: there are 3", x.Garden)
		check()
		// A plugin that begins now cannot see what the server can. The worker says why, and goes on with what there is.
		late := x.with(t, func(*Config) {})
		if s := late.statusOf(t); s.Health != sdk.Degraded || !strings.Contains(s.Reason, "max containers reached") || s.ContainerIncarnation != "" || !s.Has(sdk.FeatureImageVolume) {
			t.Errorf("%+v", s)
		}
		if out := late.sh(t, "two", "late", "echo works"); out != "works\n" {
			t.Errorf("in a container of a full server: %q", out)
		}
		if err := late.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "two", Token: token, Image: sdk.Image{Volume: "image"}}, nil); err != nil {
			t.Errorf("creating again what is there: %v", err)
		}
		x.unsure() // as if the server had been away
		if s := x.statusOf(t); s.Health != sdk.Degraded || !slices.Equal(s.Features, status.Features) {
			t.Errorf("%+v, before it was %v", s, status.Features)
		}
		want(t, late.CreateContainer(testkit.Context(t), spec, nil), sdk.Exhausted, "", "max containers reached")
		check()
		x.drop(t, "three")
		if err := x.CreateContainer(testkit.Context(t), spec, nil); err != nil {
			t.Errorf("with room again: %v", err)
		}
		x.drop(t, "four")
	})
}

// TestLikeConcourse is a server with the manners of Concourse's containerd backend.
func TestLikeConcourse(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{LikeConcourse: true})
	x := worldOn(t, servers, nil)
	t.Run("labels without a value", func(t *testing.T) {
		labels := map[string]string{"empty": "", "l": "v"}
		x.container(t, sdk.ContainerSpec{ID: "labelled", Labels: labels, Image: sdk.Image{Volume: "image"}})
		if info := x.with(t, func(*Config) {}).containers(t)["labelled"]; info.State != sdk.ContainerReady || !maps.Equal(info.Labels, labels) {
			t.Errorf("listed as %+v", info)
		}
		x.drop(t, "labelled")
	})
	t.Run("what it refused it lists", func(t *testing.T) { testRefusedIsListed(t, x) })
	t.Run("made meanwhile", func(t *testing.T) { testMadeMeanwhile(t, x) })
	target := conformance.InProcess(x.runtime, "here")
	target.Probe = conformance.LinuxProbe(t)
	options := conformance.Options{Short: true, TimeScale: 10 * testkit.TimeScale(), Without: []conformance.Requirement{conformance.EnvCrash, conformance.EnvProgram}}
	if testing.Short() {
		options.Only = []string{"E02-unknown-ids", "W10-list-filter", "W27-list-states", "C07-destroy-running", "P02-exec-missing"}
	}
	conformance.Run(t, target, options)
}

// testRefusedIsListed has a server refuse a container for good that it then lists. That is the caller's mistake, and not the trace of an earlier call; and nothing of it is left.
func testRefusedIsListed(t *testing.T, x *world) {
	x.statusOf(t) // what is made once is made
	x.volume(t, sdk.VolumeSpec{ID: "data"}, nil)
	check := x.unchanged(t)
	err := x.CreateContainer(testkit.Context(t), sdk.ContainerSpec{
		ID: "refused", Token: token, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "data", Path: "/etc/passwd"}},
	}, nil)
	want(t, err, sdk.Invalid, sdk.ReasonImage, `"refused"`, "refuses")
	check()
}

// TestLikeGuardian is a server that has forgotten its containers when it was killed, though they run on. Stopped in order it has not.
func TestLikeGuardian(t *testing.T) {
	x := newWorld(t, gardentest.Options{LikeGuardian: true}, nil)
	x.statusOf(t)
	ctx := testkit.Context(t)
	spec := sdk.ContainerSpec{ID: "one", Token: token, Image: sdk.Image{Volume: "image"}}
	records := func() []string {
		all, err := filepath.Glob(filepath.Join(x.Dir, "garden", "records", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	x.container(t, spec)
	x.StopGarden(t)
	x.StartGarden(t)
	if info := x.with(t, func(*Config) {}).containers(t)["one"]; info.State != sdk.ContainerReady {
		t.Fatalf("after a stop in order: %+v", info)
	}
	x.KillGarden()
	x.StartGarden(t)
	late := x.with(t, func(*Config) {})
	if info := late.containers(t)["one"]; info.State != sdk.ContainerGone {
		t.Errorf("after a kill: %+v", info)
	}
	want(t, late.CreateContainer(ctx, spec, nil), sdk.FailedPrecondition, sdk.ReasonDead)
	late.drop(t, "one")
	if left := records(); len(left) > 0 {
		t.Errorf("on the server, unlisted and running, there is still %q", left)
	}
	// One of which there is nothing else: it was being made when the server was killed. Repeating that does not blame the image.
	if err := late.garden.Create(ctx, garden.ContainerSpec{Handle: "two", RootFSPath: "raw://" + late.settings.Rootfs, Properties: garden.Properties{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	x.KillGarden()
	x.StartGarden(t)
	spec.ID = "two"
	want(t, late.CreateContainer(ctx, spec, nil), sdk.Unavailable, "", x.Garden, "in use")
	if err := late.CreateContainer(ctx, spec, nil); err != nil {
		t.Errorf("the next time: %v", err)
	}
	late.drop(t, "two")
	if left := records(); len(left) > 0 {
		t.Errorf("on the server there is still %q", left)
	}
}

// TestStrictMounts is a server that mounts only at what is there, as guardian does. The plugin makes it, in the container's own copy of the image.
func TestStrictMounts(t *testing.T) {
	x := newWorld(t, gardentest.Options{StrictMounts: true}, nil)
	outside := t.TempDir()
	if err := os.Chmod(outside, 0o777); err != nil {
		t.Fatal(err)
	}
	busybox, err := os.ReadFile(filepath.Join(x.VolumesDir(), "live/busybox/volume/rootfs/bin/busybox"))
	if err != nil {
		t.Fatal(err)
	}
	x.volume(t, sdk.VolumeSpec{ID: "links"}, pack(t,
		dir("rootfs"), dir("rootfs/usr"), dir("rootfs/usr/bin"), program("rootfs/usr/bin/busybox", string(busybox)), symlink("rootfs/usr/bin/sh", "busybox"), symlink("rootfs/usr/bin/cat", "busybox"),
		symlink("rootfs/bin", "usr/bin"), symlink("rootfs/out", outside), symlink("rootfs/up", "../../../../../../tmp"), symlink("rootfs/loop", "loop"), plain("rootfs/file", "x"),
	))
	x.seal(t, "links")
	x.volume(t, sdk.VolumeSpec{ID: "data"}, pack(t, plain("f", "text")))
	x.seal(t, "data")
	for id, c := range map[sdk.ContainerID]struct {
		paths []string
		bad   bool
	}{
		"new":          {paths: []string{"/a/b/c"}},
		"nested":       {paths: []string{"/w", "/v/in/ner"}},
		"by-link":      {paths: []string{"/bin/x"}},
		"out-by-link":  {paths: []string{"/out/x"}},
		"up-by-link":   {paths: []string{"/up/x"}},
		"at-a-file":    {paths: []string{"/file"}, bad: true},
		"below-a-file": {paths: []string{"/file/x"}, bad: true},
		"in-a-circle":  {paths: []string{"/loop/x"}, bad: true},
		"read-only":    {paths: []string{"/v/lacks/it", "/v"}, bad: true},
	} {
		t.Run(string(id), func(t *testing.T) {
			check := x.unchanged(t)
			spec := sdk.ContainerSpec{ID: id, Token: token, Image: sdk.Image{Volume: "links"}, Dir: "/made/for/it"}
			for _, p := range c.paths {
				spec.Mounts = append(spec.Mounts, sdk.Mount{Volume: "data", Path: p, ReadOnly: true})
			}
			err := x.CreateContainer(testkit.Context(t), spec, nil)
			if c.bad {
				want(t, err, sdk.Invalid, sdk.ReasonPath, c.paths[0])
				check()
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range c.paths {
				if out := x.sh(t, id, sdk.ProcessID("p"+strings.ReplaceAll(p, "/", "-")), "cat "+p+"/f; pwd"); out != "text/made/for/it\n" {
					t.Errorf("at %s: %q", p, out)
				}
			}
			if id == "new" { // the image has none of these
				if out := x.sh(t, id, "own", "cd /; for d in proc sys dev etc tmp; do [ -d $d ] || echo no $d; done; [ -k tmp ] && read -r line <proc/self/stat && echo ok"); out != "ok\n" {
					t.Errorf("what the server mounts: %q", out)
				}
			}
			x.drop(t, id)
			check()
		})
	}
	for _, d := range []string{outside, x.VolumesDir()} {
		entries, err := os.ReadDir(d)
		if err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "x" || e.Name() == "tmp" }) {
			t.Errorf("outside of the image, in %s: %v, %v", d, entries, err)
		}
	}
}

// TestFullDisk has no room for volumes, and then none for containers. What is there can be read and destroyed still.
func TestFullDisk(t *testing.T) {
	for _, driver := range []string{"naive", ""} { // the other is overlay, where the machine has it
		t.Run("driver "+driver, func(t *testing.T) {
			if driver == "" {
				testkit.Soak(t, "the other driver runs out of room at other places")
			}
			testFullDisk(t, driver)
		})
	}
}

func testFullDisk(t *testing.T, driver string) {
	servers := gardentest.Start(t, gardentest.Options{Driver: driver})
	servers.StopBaggageclaim(t)
	disk := filepath.Join(servers.Dir, "disk")
	small(t, disk, "64m")
	for _, name := range []string{"volumes", "overlays"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(disk, name), 0o755), os.MkdirAll(filepath.Join(servers.Dir, name), 0o755)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(filepath.Join(disk, name), filepath.Join(servers.Dir, name), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	servers.StartBaggageclaim(t)
	x := worldOn(t, servers, nil)
	x.statusOf(t)
	x.volume(t, sdk.VolumeSpec{ID: "before"}, pack(t, plain("f", "text")))
	x.volume(t, sdk.VolumeSpec{ID: "open"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "before", Image: sdk.Image{Volume: "image"}})
	check := x.unchanged(t)
	filler := fill(t, disk)
	ctx := testkit.Context(t)
	err := x.StreamIn(ctx, "open", sdk.StreamIn{}, strings.NewReader(string(pack(t, plain("big", strings.Repeat("x", 8<<20))))))
	want(t, err, sdk.Exhausted, sdk.ReasonStorage, x.Baggageclaim)
	want(t, x.CreateVolume(ctx, sdk.VolumeSpec{ID: "new", Token: token}), sdk.Exhausted, sdk.ReasonStorage, x.Baggageclaim)
	want(t, x.CreateVolume(ctx, sdk.VolumeSpec{ID: "new", Token: token, Clone: "image"}), sdk.Exhausted, sdk.ReasonStorage, x.Baggageclaim)
	want(t, x.CreateContainer(ctx, sdk.ContainerSpec{ID: "new", Token: token, Image: sdk.Image{Volume: "image"}}, nil), sdk.Exhausted, sdk.ReasonStorage, x.Baggageclaim)
	check()
	if s := x.with(t, func(*Config) {}).statusOf(t); s.Health != sdk.Degraded || !strings.Contains(s.Reason, x.Baggageclaim) {
		t.Errorf("%v, %q", s.Health, s.Reason)
	}
	check()
	if err := x.SealVolume(ctx, "before"); err != nil {
		t.Errorf("sealing on a full disk: %v", err)
	}
	var out strings.Builder
	if err := x.StreamOut(ctx, "before", sdk.StreamOut{Path: "f"}, &out); err != nil || !strings.Contains(out.String(), "text") {
		t.Errorf("reading on a full disk: %v", err)
	}
	x.drop(t, "before", "before", "open")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// Another id: Baggageclaim 1.11 keeps, in volumes/init, what it began for the ones above, and makes no volume of those handles any more.
	x.container(t, sdk.ContainerSpec{ID: "after", Image: sdk.Image{Volume: "image"}})
	if out := x.sh(t, "after", "p", "echo works"); out != "works\n" {
		t.Errorf("with room again: %q", out)
	}
	if driver == "naive" {
		testFullGarden(t, x)
	}
}

// testFullGarden fills the disk of the Garden server alone.
func testFullGarden(t *testing.T, x *world) {
	x.drop(t, "after")
	x.StopGarden(t)
	small(t, filepath.Join(x.Dir, "garden"), "1m")
	x.StartGarden(t)
	check := x.unchanged(t)
	filler := fill(t, filepath.Join(x.Dir, "garden"))
	err := x.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "newer", Token: token, Image: sdk.Image{Volume: "image"}}, nil)
	want(t, err, sdk.Exhausted, "", x.Garden, "no space left on device")
	check()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	x.container(t, sdk.ContainerSpec{ID: "newer", Image: sdk.Image{Volume: "image"}})
}

// small mounts a file system of its own. The servers' clean-up unmounts it.
func small(t *testing.T, at, size string) {
	t.Helper()
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", at, "tmpfs", 0, "mode=755,size="+size); err != nil {
		t.Fatal(err)
	}
}

// fill writes until there is no room for a byte more.
func fill(t *testing.T, disk string) (file string) {
	t.Helper()
	file = filepath.Join(disk, "filler")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for {
		if n, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			if n == 0 {
				return file
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
