//go:build linux

package garden

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// TestSettings looks from within containers at what an operator sets.
func TestSettings(t *testing.T) {
	servers := gardentest.Start(t, gardentest.Options{})
	on := t.TempDir() // on the servers' machine
	for name, text := range map[string]string{"certs/ca.pem": "certificate", "imports/data/f": "imported", "secret/f": "secret", "type/etc/kind": "a type"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(on, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(on, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	packed := filepath.Join(on, "type.tgz")
	writeType(t, packed, "git")
	x := worldOn(t, servers, func(c *Config) {
		c.Certs, c.Imports = on+"/certs", []string{on + "/imports"}
		c.ResourceType = []ResourceType{{Name: "git", Image: packed, Version: "1"}, {Name: "mighty", Image: packed, Privileged: true}, {Name: "missing", Image: on + "/not/there"}}
		c.HTTPProxy, c.NoProxy = "http://proxy:3128", "localhost"
		c.Memory, c.PIDs, c.CPU = 200<<20, 300, 500
	})
	status := x.statusOf(t)
	for name, test := range map[string]func(*testing.T, *world){
		"image volume":    testImageVolume,
		"network":         testNetwork,
		"certs":           testCerts,
		"proxies":         testProxies,
		"limits":          func(t *testing.T, x *world) { testLimits(t, x, status) },
		"imports":         func(t *testing.T, x *world) { testImports(t, x, on) },
		"resource types":  func(t *testing.T, x *world) { testResourceTypes(t, x, on) },
		"their versions":  func(t *testing.T, x *world) { testTypeVersions(t, x, filepath.Join(on, "versions.tgz")) },
		"given":           func(t *testing.T, x *world) { testGiven(t, x, on) },
		"most containers": testMostContainers,
		"no network wanted": func(t *testing.T, x *world) {
			y := x.with(t, func(c *Config) { c.Hermetic = "no" })
			if y.statusOf(t).Has(sdk.FeatureNetworkNone) {
				t.Error("network.none is named although it is switched off")
			}
			want(t, y.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "h", Token: token, Hermetic: true}, nil), sdk.Unsupported, "", "network.none")
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := x.unchanged(t)
			t.Run("", func(t *testing.T) { test(t, x) })
			check()
		})
	}
}

// writeType makes the root of a resource type: a shell, and a file that tells it from others.
func writeType(t *testing.T, path, kind string) {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	shell, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(pack(t, dir("bin"), program("bin/busybox", string(shell)), symlink("bin/sh", "busybox"), symlink("bin/cat", "busybox"), plain("kind", kind)))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// testImageVolume: rootfs is the root, what lies beside it is the host's.
func testImageVolume(t *testing.T, x *world) {
	x.container(t, sdk.ContainerSpec{ID: "image", Image: sdk.Image{Volume: "image"}, Dir: "/new/dir"})
	if out := x.sh(t, "image", "look", "pwd; ls -d /metadata.json /rootfs 2>/dev/null; echo FROM_IMAGE=$FROM_IMAGE; touch /x /bin/x && echo writable"); out != "/new/dir\nFROM_IMAGE=\nwritable\n" {
		t.Errorf("in the container: %q", out)
	}
	x.container(t, sdk.ContainerSpec{ID: "next", Image: sdk.Image{Volume: "image"}})
	if out := x.sh(t, "next", "look", "ls -d /x /bin/x /new 2>/dev/null; echo clean"); out != "clean\n" {
		t.Errorf("in another of the same image: %q", out)
	}
}

// testNetwork: the test's server gives a container its machine's network, or none.
func testNetwork(t *testing.T, x *world) {
	const devices = "sed -e 1,2d -e 's/:.*//' -e 's/ //g' /proc/net/dev | sort | tr '\\n' ' '"
	x.container(t, sdk.ContainerSpec{ID: "hermetic", Image: sdk.Image{Volume: "image"}, Hermetic: true})
	if out := x.sh(t, "hermetic", "look", devices); out != "lo " {
		t.Errorf("a hermetic container has the devices %q", out)
	}
	x.container(t, sdk.ContainerSpec{ID: "open", Image: sdk.Image{Volume: "image"}})
	ours, err := os.Readlink("/proc/self/ns/net") // devices come and go with the containers of others
	if err != nil {
		t.Fatal(err)
	}
	if out := x.sh(t, "open", "look", "readlink /proc/self/ns/net"); out != ours+"\n" {
		t.Errorf("a container with a network is in the network %q, the machine in %q", out, ours)
	}
}

func testCerts(t *testing.T, x *world) {
	x.volume(t, sdk.VolumeSpec{ID: "own-certs"}, pack(t, plain("ca.pem", "own")))
	x.container(t, sdk.ContainerSpec{ID: "certs", Image: sdk.Image{Volume: "image"}})
	if out := x.sh(t, "certs", "look", "cat /etc/ssl/certs/ca.pem; touch /etc/ssl/certs/x 2>/dev/null || echo ' read-only'"); out != "certificate read-only\n" {
		t.Errorf("the operator's: %q", out)
	}
	x.container(t, sdk.ContainerSpec{ID: "own", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "own-certs", Path: "/etc/ssl/certs"}}})
	if out := x.sh(t, "own", "look", "cat /etc/ssl/certs/ca.pem"); out != "own" {
		t.Errorf("where the step mounts its own: %q", out)
	}
}

func testProxies(t *testing.T, x *world) {
	x.container(t, sdk.ContainerSpec{ID: "proxies", Image: sdk.Image{Volume: "image"}})
	for id, c := range map[sdk.ProcessID]struct {
		env  []string
		want string
	}{
		"none": {nil, "http://proxy:3128 http://proxy:3128 - localhost\n"},
		"own":  {[]string{"HTTP_PROXY=mine"}, "- mine - localhost\n"},
		"off":  {[]string{"http_proxy=", "no_proxy=*"}, " - - *\n"},
	} {
		const show = "echo ${http_proxy--} ${HTTP_PROXY--} ${https_proxy--} \"${no_proxy--}\""
		out, _ := x.run(t, "proxies", sdk.ProcessSpec{ID: id, Path: "/bin/sh", Args: []string{"-c", show}, Env: c.env})
		if strings.TrimLeft(out, " ") != strings.TrimLeft(c.want, " ") {
			t.Errorf("%s: %q, want %q", id, out, c.want)
		}
	}
}

// testLimits reads the container's own cgroups: what is asked, or else the operator's, and what the shim takes.
func testLimits(t *testing.T, x *world, status sdk.Status) {
	for _, f := range []sdk.Feature{sdk.FeatureLimitsMemory, sdk.FeatureLimitsPIDs, sdk.FeatureLimitsCPU} {
		if !status.Has(f) {
			t.Fatalf("%s is not named: %v", f, status.Features)
		}
	}
	for id, c := range map[sdk.ContainerID]struct {
		asked             sdk.Resources
		memory, pids, cpu int64
	}{
		"asked":    {sdk.Resources{MemoryBytes: 96 << 20, PIDs: 50, CPUMillis: 2000}, 96 << 20, 50, 2048},
		"defaults": {sdk.Resources{}, 200 << 20, 300, 512},
	} {
		x.container(t, sdk.ContainerSpec{ID: id, Image: sdk.Image{Volume: "image"}, Limits: c.asked})
		out := x.sh(t, id, "look", "cd /sys/fs/cgroup; if [ -e memory ]; then cat memory/memory.limit_in_bytes pids/pids.max cpu/cpu.shares; else cat memory.max pids.max; fi")
		want := fmt.Sprintf("%d\n%d\n", c.memory+shim.OverheadMemoryBytes, c.pids+shim.OverheadPIDs)
		if out != want && out != want+fmt.Sprintln(c.cpu) { // version 2 turns shares into a weight of another scale
			t.Errorf("%s: %q, want %q and %d", id, out, want, c.cpu)
		}
	}
	check := x.unchanged(t)
	want(t, x.called(t).CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "no", Token: token, Limits: sdk.Resources{Containers: 1}}, nil), sdk.Invalid, sdk.ReasonSpec)
	check()
}

func testImports(t *testing.T, x *world, on string) {
	if !x.statusOf(t).Has(sdk.FeatureVolumeImport) {
		t.Error("volume.import is not named")
	}
	x.volume(t, sdk.VolumeSpec{ID: "imported", Import: on + "/imports/data"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "imports", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "imported", Path: "/in"}}})
	if out := x.sh(t, "imports", "look", "cat /in/f; echo new >/in/f"); out != "imported" {
		t.Errorf("in the container: %q", out)
	}
	if text, err := os.ReadFile(on + "/imports/data/f"); err != nil || string(text) != "imported" {
		t.Errorf("what was imported is now %q, %v", text, err)
	}
	without := x.with(t, func(c *Config) { c.Imports = nil })
	for name, c := range map[string]struct {
		by     *world
		path   string
		class  sdk.Class
		reason sdk.Reason
	}{
		"elsewhere":       {x, on + "/secret", sdk.Invalid, sdk.ReasonPath},
		"by dots":         {x, on + "/imports/../secret", sdk.Invalid, sdk.ReasonPath},
		"a longer name":   {x, on + "/imports-of-others", sdk.Invalid, sdk.ReasonPath},
		"not there":       {x, on + "/imports/absent", sdk.Invalid, sdk.ReasonPath},
		"none is allowed": {without, on + "/imports/data", sdk.Unsupported, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check := x.unchanged(t)
			want(t, c.by.CreateVolume(testkit.Context(t), sdk.VolumeSpec{ID: "v", Token: token, Import: c.path}), c.class, c.reason)
			check()
		})
	}
}

func testResourceTypes(t *testing.T, x *world, on string) {
	if s := x.statusOf(t); !slices.Contains(s.Features, sdk.ResourceTypePrefix+"git") {
		t.Errorf("the worker does not name its type: %v", s.Features)
	}
	x.container(t, sdk.ContainerSpec{ID: "git", Image: sdk.Image{Ref: "resource-type:git"}})
	if out := x.sh(t, "git", "look", "cat /kind; echo changed >/kind"); out != "git" {
		t.Errorf("in the container: %q", out)
	}
	x.container(t, sdk.ContainerSpec{ID: "again", Image: sdk.Image{Ref: "resource-type:git"}})
	if out := x.sh(t, "again", "look", "cat /kind"); out != "git" {
		t.Errorf("in the next: %q", out)
	}
	for ref, words := range map[string]string{"mighty": "privileged", "missing": on + "/not/there", "unknown": `"unknown"`} {
		t.Run(ref, func(t *testing.T) {
			check := x.unchanged(t)
			err := x.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Ref: "resource-type:" + ref}}, nil)
			want(t, err, sdk.Invalid, sdk.ReasonImage, words)
			check()
		})
	}
}

// testTypeVersions changes what lies at the path of a type. Containers get it once the version is another one.
func testTypeVersions(t *testing.T, x *world, path string) {
	for i, step := range []struct{ lies, version, want string }{{"old", "1", "old"}, {"new", "1", "old"}, {"new", "2", "new"}} {
		writeType(t, path, step.lies)
		y := x.with(t, func(c *Config) { c.ResourceType = []ResourceType{{Name: "git", Image: path, Version: step.version}} })
		id := sdk.ContainerID(fmt.Sprintf("version-%d", i))
		y.container(t, sdk.ContainerSpec{ID: id, Image: sdk.Image{Ref: "resource-type:git"}})
		if out := y.sh(t, id, "look", "cat /kind"); out != step.want {
			t.Errorf("%q lies there, the version is %s: %q, want %q", step.lies, step.version, out, step.want)
		}
	}
}

// testGiven has the suite look at what only the operator knows of.
func testGiven(t *testing.T, x *world, on string) {
	target := conformance.InProcess(x.runtime, "here")
	target.Probe = conformance.LinuxProbe(t)
	target.Image = sdk.Image{Volume: "image"}
	target.Given = conformance.Given{ImageRef: "resource-type:git", ImageFile: "/kind", Import: on + "/imports/data"}
	conformance.Run(t, target, conformance.Options{Only: []string{"Y09-image-ref", "V13-import"}, TimeScale: 10 * testkit.TimeScale()})
}

func testMostContainers(t *testing.T, x *world) {
	most := len(x.Containers(t)) + 1
	y := x.with(t, func(c *Config) { c.MaxContainers = most })
	if got := y.statusOf(t).Capacity.Containers; got != int64(most) {
		t.Errorf("the capacity is %d, want %d", got, most)
	}
	// Of some at once, one is the last.
	var specs [4]sdk.ContainerSpec
	var errs [4]error
	var calls sync.WaitGroup
	for i := range specs {
		specs[i] = sdk.ContainerSpec{ID: sdk.ContainerID(fmt.Sprintf("last-%d", i)), Token: token, Image: sdk.Image{Volume: "image"}}
		calls.Go(func() { errs[i] = y.CreateContainer(testkit.Context(t), specs[i], nil) })
	}
	calls.Wait()
	var last []sdk.ContainerSpec
	for i, err := range errs {
		if err == nil {
			last = append(last, specs[i])
			t.Cleanup(func() { x.drop(t, specs[i].ID) })
			continue
		}
		want(t, err, sdk.Exhausted, "", "max_containers")
	}
	if len(last) != 1 {
		t.Fatalf("%d containers were made, there is room for 1", len(last))
	}
	check := x.unchanged(t)
	want(t, y.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "more", Token: token, Image: sdk.Image{Volume: "image"}}, nil), sdk.Exhausted, "", "max_containers")
	check()
	if err := y.CreateContainer(testkit.Context(t), last[0], nil); err != nil {
		t.Errorf("the one that is there, again: %v", err)
	}
	// One that the server had made for a call that was given up: the host repeats it.
	want(t, y.create(testkit.Context(t), last[0], y.abilities, func(sdk.Progress) {}), sdk.Unavailable, "", string(last[0].ID))
}
