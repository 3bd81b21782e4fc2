//go:build linux

package garden

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/plugins/garden/gardentest"
	"github.com/slipway-run/slipway/sdk"
)

// TestBadInput asks for what cannot be, and has others work on the servers behind the plugin's back. Each case leaves the servers as they were.
func TestBadInput(t *testing.T) {
	x := newWorld(t, gardentest.Options{}, nil)
	x.statusOf(t) // so that what is made once is there
	x.container(t, sdk.ContainerSpec{ID: "first", Image: sdk.Image{Volume: "image"}})
	for name, test := range map[string]func(*testing.T, *world){
		"images":                  testImages,
		"references":              testReferences,
		"mounts":                  testMounts,
		"programs":                testPrograms,
		"archives":                testArchives,
		"a volume vanished":       testVolumeVanished,
		"a container vanished":    testContainerVanished,
		"its first process died":  testFirstProcessDied,
		"somebody's container":    testForeignContainer,
		"somebody's volume":       testForeignVolume,
		"another token":           testOtherToken,
		"another installation":    testTwoInstallations,
		"privileged and not":      testPrivileged,
		"privileged is denied":    testPrivilegedDenied,
		"twenty creations of one": testManyCreations,
	} {
		t.Run(name, func(t *testing.T) {
			check := x.unchanged(t)
			t.Cleanup(func() {
				if !t.Failed() {
					check()
				}
			})
			t.Run("", func(t *testing.T) { test(t, x) })
		})
	}
}

func testImages(t *testing.T, x *world) {
	for id, c := range map[sdk.VolumeID]struct {
		content []file
		open    bool
		class   sdk.Class
		reason  sdk.Reason
		words   string
	}{
		"none":    {content: []file{plain("metadata.json", "{}")}, class: sdk.Invalid, reason: sdk.ReasonImage, words: `"rootfs"`},
		"file":    {content: []file{plain("rootfs", "x")}, class: sdk.Invalid, reason: sdk.ReasonImage, words: `"rootfs"`},
		"link":    {content: []file{symlink("rootfs", "/")}, class: sdk.Invalid, reason: sdk.ReasonImage, words: `"rootfs"`},
		"link-up": {content: []file{symlink("rootfs", "../../../..")}, class: sdk.Invalid, reason: sdk.ReasonImage, words: `"rootfs"`},
		"link-in": {content: []file{dir("real"), symlink("rootfs", "real")}, class: sdk.Invalid, reason: sdk.ReasonImage, words: `"rootfs"`},
		"open":    {content: []file{dir("rootfs")}, open: true, class: sdk.FailedPrecondition, reason: sdk.ReasonNotSealed, words: "sealed"},
		"absent":  {class: sdk.NotFound, words: `"absent"`},
	} {
		t.Run(string(id), func(t *testing.T) {
			if c.content != nil {
				x.volume(t, sdk.VolumeSpec{ID: id}, pack(t, c.content...))
			}
			if c.content != nil && !c.open {
				x.seal(t, id)
			}
			check := x.unchanged(t)
			err := x.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: id}}, nil)
			want(t, err, c.class, c.reason, c.words)
			if c.class == sdk.NotFound && !sdk.IsNotFound(err, sdk.KindVolume) {
				t.Errorf("%v, want NotFound of a volume", err)
			}
			check()
		})
	}
}

// testReferences: the test's server has no image plugin, and says so in its own words.
func testReferences(t *testing.T, x *world) {
	plugin := x.with(t, func(c *Config) { c.ImagePlugin, c.Rootfs = true, "" })
	for name, c := range map[string]struct {
		by     *world
		image  sdk.Image
		class  sdk.Class
		reason sdk.Reason
		words  string
	}{
		"no image":           {plugin, sdk.Image{}, sdk.Invalid, sdk.ReasonImage, "rootfs"},
		"no image plugin":    {x, sdk.Image{Ref: "docker:///busybox"}, sdk.Unsupported, "", string(sdk.FeatureImageRef)},
		"the server refuses": {plugin, sdk.Image{Ref: "docker:///busybox"}, sdk.Invalid, sdk.ReasonImage, "is not of the kind raw:///directory"},
		"a path of the host": {plugin, sdk.Image{Ref: "raw:///"}, sdk.Invalid, sdk.ReasonImage, "raw:///"},
		"in capitals":        {plugin, sdk.Image{Ref: "RAW:///"}, sdk.Invalid, sdk.ReasonImage, "RAW:///"},
		"without a scheme":   {plugin, sdk.Image{Ref: "/etc"}, sdk.Invalid, sdk.ReasonImage, "/etc"},
		"a file of the host": {plugin, sdk.Image{Ref: "oci:///images/x"}, sdk.Invalid, sdk.ReasonImage, "oci:///images/x"},
		"no such type":       {plugin, sdk.Image{Ref: "resource-type:git"}, sdk.Invalid, sdk.ReasonImage, `"git"`},
	} {
		t.Run(name, func(t *testing.T) {
			check := x.unchanged(t)
			want(t, c.by.CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "c", Token: token, Image: c.image}, nil), c.class, c.reason, c.words)
			check()
		})
	}
}

func testMounts(t *testing.T, x *world) {
	x.volume(t, sdk.VolumeSpec{ID: "data"}, pack(t, plain("f", "text"), symlink("out", "/etc")))
	x.volume(t, sdk.VolumeSpec{ID: "done"}, pack(t, plain("f", "text")))
	x.seal(t, "done")
	for name, c := range map[string]struct {
		mount  sdk.Mount
		limits sdk.Resources
		class  sdk.Class
		reason sdk.Reason
		words  string
	}{
		"absent":          {mount: sdk.Mount{Volume: "absent", Path: "/in"}, class: sdk.NotFound, words: `"absent"`},
		"sealed":          {mount: sdk.Mount{Volume: "done", Path: "/in"}, class: sdk.FailedPrecondition, reason: sdk.ReasonSealed, words: "/in"},
		"over the shim":   {mount: sdk.Mount{Volume: "data", Path: "/slipway/bin"}, class: sdk.Invalid, reason: sdk.ReasonPath, words: "/slipway"},
		"over /slipway":   {mount: sdk.Mount{Volume: "data", Path: "/slipway"}, class: sdk.Invalid, reason: sdk.ReasonPath, words: "/slipway"},
		"over /proc":      {mount: sdk.Mount{Volume: "data", Path: "/proc"}, class: sdk.Invalid, reason: sdk.ReasonPath, words: "/proc"},
		"over a file":     {mount: sdk.Mount{Volume: "data", Path: "/etc/passwd"}, class: sdk.Invalid, reason: sdk.ReasonImage, words: "refuses"},
		"below a file":    {mount: sdk.Mount{Volume: "data", Path: "/etc/passwd/x"}, class: sdk.Invalid, reason: sdk.ReasonImage, words: "refuses"},
		"relative":        {mount: sdk.Mount{Volume: "data", Path: "in"}, class: sdk.Invalid, reason: sdk.ReasonPath, words: "in"},
		"a limit of disk": {mount: sdk.Mount{Volume: "data", Path: "/in"}, limits: sdk.Resources{DiskBytes: 1 << 30}, class: sdk.Unsupported, words: string(sdk.FeatureLimitsDisk)},
	} {
		t.Run(name, func(t *testing.T) {
			check := x.unchanged(t)
			err := x.called(t).CreateContainer(testkit.Context(t), sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{c.mount}, Limits: c.limits}, nil)
			want(t, err, c.class, c.reason, c.words)
			check()
		})
	}
	// What is refused leaves volumes as they were.
	x.seal(t, "data")
}

// testPrograms starts what cannot run, in an image that has next to nothing.
func testPrograms(t *testing.T, x *world) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err) // the image is made of it
	}
	elf, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	foreign := slices.Clone(elf[:4096])
	foreign[18], foreign[19] = 0x16, 0 // the machine of its header: an S/390
	x.volume(t, sdk.VolumeSpec{ID: "bare"}, pack(t,
		program("rootfs/tool/busybox", string(elf)), program("rootfs/tool/foreign", string(foreign)), program("rootfs/tool/text", "\x00\x01no program"),
		program("rootfs/tool/orphan", "#!/not/there\n"), plain("rootfs/tool/plain", "#!/tool/busybox\n"), symlink("rootfs/tool/loop", "loop"), symlink("rootfs/tool/dangling", "/not/there"),
	))
	x.seal(t, "bare")
	x.container(t, sdk.ContainerSpec{ID: "programs", Image: sdk.Image{Volume: "bare"}, Dir: "/work"})
	if out, exit := x.run(t, "programs", sdk.ProcessSpec{ID: "good", Path: "/tool/busybox", Args: []string{"pwd"}}); out != "/work\n" || exit.Code != 0 {
		t.Errorf("a static program in an image without a shell: %q, %+v", out, exit)
	}
	if out, exit := x.run(t, "programs", sdk.ProcessSpec{ID: "number", Path: "busybox", Args: []string{"id"}, User: "77:78", Env: []string{"PATH=/tool"}}); out != "uid=77 gid=78\n" || exit.Code != 0 {
		t.Errorf("a user by number where there is no /etc/passwd: %q, %+v", out, exit)
	}
	for name, c := range map[sdk.ProcessID]struct {
		spec   sdk.ProcessSpec
		reason sdk.Reason
		words  string
	}{
		"no-shell":    {sdk.ProcessSpec{Path: "/bin/sh"}, sdk.ReasonExecutableNotFound, "/bin/sh"},
		"by-name":     {sdk.ProcessSpec{Path: "sh"}, sdk.ReasonExecutableNotFound, "sh"},
		"dangling":    {sdk.ProcessSpec{Path: "/tool/dangling"}, sdk.ReasonExecutableNotFound, "/tool/dangling"},
		"orphan":      {sdk.ProcessSpec{Path: "/tool/orphan"}, sdk.ReasonNotExecutable, "/tool/orphan"},
		"loop":        {sdk.ProcessSpec{Path: "/tool/loop"}, sdk.ReasonNotExecutable, "/tool/loop"},
		"plain":       {sdk.ProcessSpec{Path: "/tool/plain"}, sdk.ReasonNotExecutable, "/tool/plain"},
		"a-directory": {sdk.ProcessSpec{Path: "/tool"}, sdk.ReasonNotExecutable, "/tool"},
		"foreign":     {sdk.ProcessSpec{Path: "/tool/foreign"}, sdk.ReasonNotExecutable, "/tool/foreign"},
		"text":        {sdk.ProcessSpec{Path: "/tool/text"}, sdk.ReasonNotExecutable, "/tool/text"},
		"nobody":      {sdk.ProcessSpec{Path: "/tool/busybox", User: "nobody"}, sdk.ReasonUserNotFound, "nobody"},
		"no-group":    {sdk.ProcessSpec{Path: "/tool/busybox", User: "0:staff"}, sdk.ReasonUserNotFound, "staff"},
	} {
		t.Run(string(name), func(t *testing.T) {
			c.spec.ID, c.spec.Token = name, token
			want(t, x.StartProcess(testkit.Context(t), "programs", c.spec), sdk.Invalid, c.reason, c.words)
			all, err := x.ListProcesses(testkit.Context(t), "programs")
			if err != nil || slices.ContainsFunc(all, func(p sdk.ProcessInfo) bool { return p.ID == name }) {
				t.Errorf("a start that was Invalid is listed: %+v, %v", all, err)
			}
		})
	}
}

// testArchives unpacks what would change something outside of the volume.
func testArchives(t *testing.T, x *world) {
	outside := t.TempDir()
	for id, c := range map[sdk.VolumeID][]file{
		"dotdot":       {plain("../escaped", "x")},
		"deep-dotdot":  {dir("a"), plain("a/../../escaped", "x")},
		"through-link": {symlink("l", outside), plain("l/escaped", "x")},
		"through-two":  {symlink("a", ".."), symlink("b", "a/.."), plain("b/escaped", "x")},
		"hard-link":    {file{Header: tarLink("h", "../../../../../../etc/passwd")}},
	} {
		t.Run(string(id), func(t *testing.T) {
			x.volume(t, sdk.VolumeSpec{ID: id}, nil)
			err := x.StreamIn(testkit.Context(t), id, sdk.StreamIn{}, strings.NewReader(string(pack(t, c...))))
			want(t, err, sdk.Invalid, sdk.ReasonArchive)
			if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
				t.Errorf("outside of the volume there are now %v, %v", left, err)
			}
			for _, up := range []string{"/live", ""} {
				if _, err := os.Lstat(x.VolumesDir() + up + "/escaped"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("an entry escaped to %s: %v", up, err)
				}
			}
		})
	}
}

// testVolumeVanished destroys directly what a container mounts.
func testVolumeVanished(t *testing.T, x *world) {
	x.volume(t, sdk.VolumeSpec{ID: "input"}, pack(t, plain("f", "text")))
	x.seal(t, "input")
	x.volume(t, sdk.VolumeSpec{ID: "output"}, nil)
	x.container(t, sdk.ContainerSpec{ID: "user", Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "input", Path: "/in", ReadOnly: true}, {Volume: "output", Path: "/out"}}})
	x.destroyVolume(t, "input")
	x.destroyVolume(t, "output")
	if out := x.sh(t, "user", "still", "echo alive"); out != "alive\n" {
		t.Errorf("a process beside the missing volumes: %q", out)
	}
	ctx := testkit.Context(t)
	for name, err := range map[string]error{
		"sealing":         x.SealVolume(ctx, "output"),
		"streaming in":    x.StreamIn(ctx, "output", sdk.StreamIn{}, strings.NewReader(string(pack(t)))),
		"streaming out":   x.StreamOut(ctx, "input", sdk.StreamOut{}, new(strings.Builder)),
		"mounting":        x.CreateContainer(ctx, sdk.ContainerSpec{ID: "next", Token: token, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "input", Path: "/in", ReadOnly: true}}}, nil),
		"cloning":         x.CreateVolume(ctx, sdk.VolumeSpec{ID: "clone", Token: token, Clone: "input"}),
		"an absent image": x.CreateContainer(ctx, sdk.ContainerSpec{ID: "next", Token: token, Image: sdk.Image{Volume: "input"}}, nil),
	} {
		if !sdk.IsNotFound(err, sdk.KindVolume) {
			t.Errorf("%s: %s: %v; want NotFound of the volume", name, sdk.ClassOf(err), err)
		}
	}
	for _, id := range []sdk.VolumeID{"input", "output"} {
		if err := x.DestroyVolume(ctx, id); err != nil {
			t.Errorf("destroying %s: %v", id, err)
		}
	}
}

// destroyVolume does so without the plugin.
func (x *world) destroyVolume(t testing.TB, handle string) {
	t.Helper()
	ctx, cancel := cleaning(t)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, x.Servers.Baggageclaim+"/volumes/"+handle, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("destroying volume %s: %s", handle, resp.Status)
	}
}

// testForeignContainer has a container that somebody else made under an id that the host then wants.
func testForeignContainer(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	root := x.Volume(t, "foreign-root", gardentest.Busybox(t), false) + "/rootfs"
	t.Cleanup(func() { x.destroyVolume(t, "foreign-root") })
	if err := x.garden.Create(ctx, garden.ContainerSpec{Handle: "taken", RootFSPath: "raw://" + root, Properties: garden.Properties{"owner": "somebody"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleaning(t)
		defer cancel()
		if err := x.garden.Destroy(ctx, "taken"); err != nil {
			t.Error(err)
		}
	})
	check := x.unchanged(t)
	err := x.CreateContainer(ctx, sdk.ContainerSpec{ID: "taken", Token: token, Image: sdk.Image{Volume: "image"}}, nil)
	want(t, err, sdk.AlreadyExists, "", `"taken"`)
	check()
	if err := x.DestroyContainer(ctx, "taken"); err != nil {
		t.Errorf("destroying another's: %v; for a host it is not there", err)
	}
	check()
	if err := x.StartProcess(ctx, "taken", sdk.ProcessSpec{ID: "p", Token: token, Path: "/bin/true"}); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("a process in another's: %v", err)
	}
	if _, err := x.ListProcesses(ctx, "taken"); !sdk.IsNotFound(err, sdk.KindContainer) {
		t.Errorf("listing another's processes: %v", err)
	}
	if _, ok := x.containers(t)["taken"]; ok {
		t.Error("another's container is listed")
	}
	if p, err := x.garden.Properties(ctx, "taken"); err != nil || p["owner"] != "somebody" || p[propID] != "" {
		t.Errorf("another's properties: %v, %v", p, err)
	}
}

// testForeignVolume does the same with a volume.
func testForeignVolume(t *testing.T, x *world) {
	ctx := testkit.Context(t)
	path := x.Volume(t, "taken", pack(t, plain("f", "somebody's")), false)
	t.Cleanup(func() { x.destroyVolume(t, "taken") })
	check := x.unchanged(t)
	for name, err := range map[string]error{
		"create": x.CreateVolume(ctx, sdk.VolumeSpec{ID: "taken", Token: token}),
		"clone":  x.CreateVolume(ctx, sdk.VolumeSpec{ID: "taken", Token: token, Clone: "image"}),
	} {
		if !errors.Is(err, sdk.AlreadyExists) {
			t.Errorf("%s: %v, want AlreadyExists", name, err)
		}
	}
	for name, err := range map[string]error{
		"seal":       x.SealVolume(ctx, "taken"),
		"stream in":  x.StreamIn(ctx, "taken", sdk.StreamIn{}, strings.NewReader(string(pack(t, plain("f", "mine"))))),
		"stream out": x.StreamOut(ctx, "taken", sdk.StreamOut{}, new(strings.Builder)),
		"clone it":   x.CreateVolume(ctx, sdk.VolumeSpec{ID: "clone", Token: token, Clone: "taken"}),
		"as image":   x.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "taken"}}, nil),
		"mount":      x.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: token, Image: sdk.Image{Volume: "image"}, Mounts: []sdk.Mount{{Volume: "taken", Path: "/x"}}}, nil),
	} {
		if !sdk.IsNotFound(err, sdk.KindVolume) {
			t.Errorf("%s: %s: %v, want NotFound of the volume", name, sdk.ClassOf(err), err)
		}
	}
	if err := x.DestroyVolume(ctx, "taken"); err != nil {
		t.Errorf("destroying another's: %v; for a host it is not there", err)
	}
	if err := x.ListVolumes(ctx, sdk.Filter{}, func(v sdk.VolumeInfo) error {
		if v.ID == "taken" {
			t.Error("another's volume is listed")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	check()
	if content, err := os.ReadFile(path + "/f"); err != nil || string(content) != "somebody's" {
		t.Errorf("another's content: %q, %v", content, err)
	}
}
