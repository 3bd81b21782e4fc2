package conformance

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// featureCases check that a worker can do what it names, and refuses the rest.
func featureCases() []Case {
	return []Case{
		{
			ID: "Y02-undeclared", Title: "what needs a feature that the worker does not name is Unsupported, names it, and makes nothing", Promises: []string{"14g"}, Level: Must, Profile: Core, Run: runUndeclared,
			Doc: "A limit or an isolation that is silently ignored is worse than none: somebody relies on it.",
		},
		{
			ID: "Y05-undeclared-user", Title: "any user, root too, is Unsupported where users is not named", Promises: []string{"14g"}, Level: Must, Profile: Core, Run: runUndeclaredUser,
			Doc: "A host that asks for a user must be able to rely on the feature's name alone, not on which user it asks for.",
		},
		{
			ID: "Y03-files-read", Title: "where files.read is named, files are looked at and read as they are", Promises: []string{"14f", "11b"}, Level: Must, Profile: Core, Run: runFileRead,
			Needs: []sdk.Feature{sdk.FeatureFileRead}, Doc: "A host reads single files without streaming the volume.",
		},
		{
			ID: "Y04-image-volume", Title: "where image.volume is named, the rootfs of a sealed volume is the container's root, and stays as it was", Promises: []string{"9aa", "14f", "9k"}, Level: Must, Profile: Core, Run: runImageVolume,
			Needs: []sdk.Feature{sdk.FeatureImageVolume}, Env: []Requirement{EnvBare}, Doc: "Containers write to their root; the next container of the image must not see that.",
		},
		{
			ID: "K01-cancelled-before", Title: "a call whose context has ended already returns that error and does nothing", Promises: []string{"2b", "14c"}, Level: Must, Profile: Core, Run: runCancelledBefore,
			Doc: "A host that gave up on a call does not expect it to happen later.",
		},
	}
}

func runUndeclared(ctx context.Context, c *C) {
	container := c.Container(ctx)
	sealed := c.Sealed(ctx, Dir("rootfs"))
	const why = "what is asked for and cannot be done must be refused, with the feature's name, for a host to look elsewhere"
	want := func(err error, f sdk.Feature) {
		if !c.WantClass(err, sdk.Unsupported, why, "asking for what needs %q", f) {
			return
		}
		if e := asError(err); e.Feature != f {
			c.Errorf(why, "asking for what needs %q: the error names %q", f, e.Feature)
		}
	}
	for f, with := range map[sdk.Feature]func(*sdk.ContainerSpec){
		sdk.FeaturePrivileged:   func(s *sdk.ContainerSpec) { s.Privileged = true },
		sdk.FeatureNetworkNone:  func(s *sdk.ContainerSpec) { s.Hermetic = true },
		sdk.FeatureImageVolume:  func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: sealed} },
		sdk.FeatureImageRef:     func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Ref: "docker:///busybox"} },
		sdk.FeatureLimitsCPU:    func(s *sdk.ContainerSpec) { s.Limits.CPUMillis = 500 },
		sdk.FeatureLimitsMemory: func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = 1 << 30 },
		sdk.FeatureLimitsDisk:   func(s *sdk.ContainerSpec) { s.Limits.DiskBytes = 1 << 30 },
		sdk.FeatureLimitsPIDs:   func(s *sdk.ContainerSpec) { s.Limits.PIDs = 100 },
	} {
		if c.Status.Has(f) {
			continue
		}
		spec := c.ContainerSpec(with)
		want(c.W.CreateContainer(ctx, spec, nil), f)
		c.wantNoContainer(ctx, spec.ID)
	}
	for f, with := range map[sdk.Feature]func(*sdk.VolumeSpec){
		sdk.FeaturePrivileged:   func(s *sdk.VolumeSpec) { s.Privileged = true },
		sdk.FeatureVolumeImport: func(s *sdk.VolumeSpec) { s.Import = "/var/empty" },
	} {
		if c.Status.Has(f) {
			continue
		}
		spec := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
		with(&spec)
		want(c.W.CreateVolume(ctx, spec), f)
		c.wantNoVolume(ctx, spec.ID)
	}
	for f, with := range map[sdk.Feature]func(*sdk.ProcessSpec){
		sdk.FeatureTTY:   func(s *sdk.ProcessSpec) { s.TTY = &sdk.TTY{Columns: 80, Rows: 24} },
		sdk.FeatureUsers: func(s *sdk.ProcessSpec) { s.User = "1234:5678" },
	} {
		if c.Status.Has(f) {
			continue
		}
		spec := c.Spec(c.Commands.Exit(0), with)
		want(c.W.StartProcess(ctx, container, spec), f)
		if _, ok := c.Process(ctx, container, spec.ID); ok {
			c.Errorf("what was refused left no record", "process %q is listed", spec.ID)
		}
	}
	c.undeclaredInterfaces(ctx, container, sealed, want)
}

func runUndeclaredUser(ctx context.Context, c *C) {
	if c.Status.Has(sdk.FeatureUsers) {
		return
	}
	id := c.Container(ctx)
	for _, user := range []string{"root", "0", "0:0"} {
		spec := c.Spec(c.Commands.Exit(0), func(s *sdk.ProcessSpec) { s.User = user })
		c.WantClass(c.W.StartProcess(ctx, id, spec), sdk.Unsupported, "what is not named must answer Unsupported", "starting as user %q", user)
		if _, ok := c.Process(ctx, id, spec.ID); ok {
			c.Errorf("what was refused left no record", "process %q is listed", spec.ID)
		}
	}
}

func (c *C) undeclaredInterfaces(ctx context.Context, container sdk.ContainerID, sealed sdk.VolumeID, want func(error, sdk.Feature)) {
	w := c.Optional()
	if !c.Status.Has(sdk.FeatureTTYResize) {
		p := c.Started(ctx, container, c.Commands.Sleep())
		want(sdk.ResizeProcess(ctx, w, container, p, sdk.TTY{Columns: 1, Rows: 1}), sdk.FeatureTTYResize)
	}
	if r, ok := w.(sdk.FileReader); ok && !c.Status.Has(sdk.FeatureFileRead) {
		_, err := r.StatFile(ctx, sealed, "rootfs")
		want(err, sdk.FeatureFileRead)
		want(r.ListFiles(ctx, sealed, "", func(sdk.FileInfo) error { return nil }), sdk.FeatureFileRead)
		want(r.ReadFile(ctx, sealed, "rootfs", 0, -1, io.Discard), sdk.FeatureFileRead)
	}
	if p, ok := w.(sdk.PeerStreamer); ok && !c.Status.Has(sdk.FeaturePeerStream) {
		_, err := p.PeerTicket(ctx, c.Volume(ctx), sdk.StreamIn{})
		want(err, sdk.FeaturePeerStream)
		want(p.PeerSend(ctx, sealed, sdk.StreamOut{}, sdk.PeerTicket{}), sdk.FeaturePeerStream)
	}
}

func runFileRead(ctx context.Context, c *C) {
	r, ok := c.Optional().(sdk.FileReader)
	if !ok {
		c.Fatalf("a feature that is named works", "the worker names files.read and has no such methods")
	}
	data := pattern(700_000)
	tool := File("d/tool", data)
	tool.Mode, tool.UID, tool.GID = 0o4750, 12, 34
	id := c.Filled(ctx, Dir("d"), Dir("d/sub"), File("d/sub/deep", ""), tool, Symlink("d/link", "tool"), File("d/b", "b"))

	i, err := r.StatFile(ctx, id, "d/tool")
	c.OK(err, "looking at d/tool")
	if i.Name != "tool" || i.Mode.Perm() != 0o750 || !i.Mode.IsRegular() || i.Size != 700_000 || i.UID != 12 || i.GID != 34 || i.ModTime.Unix() != someTime {
		c.Errorf("a file is told as it is", "d/tool is %+v", i)
	}
	i, err = r.StatFile(ctx, id, "d/link")
	c.OK(err, "looking at d/link")
	if i.Name != "link" || i.LinkTarget != "tool" {
		c.Errorf("a link at the end of a path is not followed", "d/link is %+v", i)
	}
	var names []string
	c.OK(r.ListFiles(ctx, id, "d", func(i sdk.FileInfo) error { names = append(names, i.Name); return nil }), "listing d")
	if got := strings.Join(names, " "); got != "b link sub tool" {
		c.Errorf("a directory's names come in order, and nothing below it", "d holds %q, want %q", got, "b link sub tool")
	}
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{{0, -1, data}, {0, 10, data[:10]}, {300_000, 70_000, data[300_000:370_000]}, {699_990, 100, data[699_990:]}, {700_000, -1, ""}, {800_000, 5, ""}, {5, 0, ""}} {
		var b bytes.Buffer
		c.OK(r.ReadFile(ctx, id, "d/tool", tt.offset, tt.length, &b), "reading %d bytes from %d on", tt.length, tt.offset)
		if b.String() != tt.want {
			c.Errorf("the bytes asked for, fewer at the file's end", "reading %d bytes from %d on: %s", tt.length, tt.offset, difference(b.String(), tt.want))
		}
	}
	for _, p := range []string{"x", "d/x", "d/b/x"} {
		_, err := r.StatFile(ctx, id, p)
		c.WantNotFound(err, sdk.KindFile, "a missing file is NotFound of a file", "looking at %q", p)
		c.WantNotFound(r.ReadFile(ctx, id, p, 0, -1, io.Discard), sdk.KindFile, "a missing file is NotFound of a file", "reading %q", p)
	}
	_, err = r.StatFile(ctx, id, "../x")
	c.WantClass(err, sdk.Invalid, "paths inside a volume never leave it", "looking at ../x")
	_, err = r.StatFile(ctx, c.VolumeID(), "x")
	c.WantNotFound(err, sdk.KindVolume, "a missing volume is NotFound of a volume", "looking into an unknown volume")
}

func runImageVolume(ctx context.Context, c *C) {
	image := c.Sealed(ctx, Dir("rootfs"), File("rootfs/in-image", "from the image"), File("metadata.json", "{}"))
	with := func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: image} }
	first := c.Container(ctx, with)
	c.WantOutput(c.Exec(ctx, first, c.Commands.CatFile("/in-image")), "from the image", "", "reading a file of the image")
	c.WantExit(c.Exec(ctx, first, c.Commands.Append("/in-image", ", changed")), 0, "writing to the container's root")
	second := c.Container(ctx, with)
	c.WantOutput(c.Exec(ctx, second, c.Commands.CatFile("/in-image")), "from the image", "", "reading it in a second container")
	c.WantTree(c.Tree(ctx, image, "rootfs"), []Entry{File("in-image", "from the image")}, 0, "the image afterwards")
	open := c.Volume(ctx)
	spec := c.ContainerSpec(func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: open} })
	c.WantReason(c.W.CreateContainer(ctx, spec, nil), sdk.FailedPrecondition, sdk.ReasonNotSealed, "an image never changes", "an open volume as image")
	missing := c.ContainerSpec(func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: c.VolumeID()} })
	c.WantNotFound(c.W.CreateContainer(ctx, missing, nil), sdk.KindVolume, "a host must learn what is lost", "an unknown volume as image")
}

func runCancelledBefore(ctx context.Context, c *C) {
	open, sealed := c.Filled(ctx, File("a", "a")), c.Sealed(ctx, File("b", "b"))
	container := c.Container(ctx)
	running := c.Started(ctx, container, c.Commands.Sleep())
	over, cancel := context.WithCancel(ctx)
	cancel()

	v, k, p := c.VolumeID(), c.ContainerSpec(), c.Spec(c.Commands.Exit(0))
	var b bytes.Buffer
	for what, call := range map[string]func() error{
		"Status": func() error { _, err := c.W.Status(over); return err },
		"CreateVolume": func() error {
			return c.W.CreateVolume(over, sdk.VolumeSpec{ID: v, Token: sdk.NewToken(), Labels: c.Labels()})
		},
		"SealVolume":    func() error { return c.W.SealVolume(over, open) },
		"ListVolumes":   func() error { return c.W.ListVolumes(over, sdk.Filter{}, func(sdk.VolumeInfo) error { return nil }) },
		"DestroyVolume": func() error { return c.W.DestroyVolume(over, sealed) },
		"StreamIn": func() error {
			return c.W.StreamIn(over, open, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{File("new", "")})))
		},
		"StreamOut":       func() error { return c.W.StreamOut(over, open, sdk.StreamOut{}, &b) },
		"CreateContainer": func() error { return c.W.CreateContainer(over, k, nil) },
		"ListContainers": func() error {
			return c.W.ListContainers(over, sdk.Filter{}, func(sdk.ContainerInfo) error { return nil })
		},
		"DestroyContainer": func() error { return c.W.DestroyContainer(over, container) },
		"StartProcess":     func() error { return c.W.StartProcess(over, container, p) },
		"ListProcesses":    func() error { _, err := c.W.ListProcesses(over, container); return err },
		"FollowProcess":    func() error { return c.W.FollowProcess(over, container, running, 0, sdk.Follow{}) },
		"SignalProcess":    func() error { return c.W.SignalProcess(over, container, running, sdk.KILL) },
	} {
		if err := call(); !isCanceled(err) {
			c.Errorf("a context that has ended ends the call, as context.Canceled", "%s: got %s", what, describe(err))
		}
	}
	c.wantNoVolume(ctx, v)
	c.wantNoContainer(ctx, k.ID)
	c.wantCount(ctx, 2, 1)
	if i, _ := c.ListVolume(ctx, open); i.State != sdk.VolumeOpen {
		c.Errorf("a call that was given up has no effect", "the volume is %s, want open", i.State)
	}
	if _, ok := c.Process(ctx, container, p.ID); ok {
		c.Errorf("a call that was given up has no effect", "the process was started")
	}
	if i, _ := c.Process(ctx, container, running); i.State != sdk.ProcessRunning {
		c.Errorf("a call that was given up has no effect", "the process that was running is %s", i.State)
	}
	c.WantTree(c.Tree(ctx, open, ""), []Entry{File("a", "a")}, 0, "the open volume")
}
