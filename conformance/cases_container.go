package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// containerCases check where processes run.
func containerCases() []Case {
	return []Case{
		{
			ID: "C01-minimal", Title: "a container without anything is listed as ready and runs a process", Rules: []int{1}, Level: Must, Profile: Core, Run: runMinimalContainer,
			Doc: "The least that every runtime can do.",
		},
		{
			ID: "C06-destroy", Title: "destroying a container takes it off the list, and again succeeds", Rules: []int{1, 8}, Level: Must, Profile: Core, Run: runDestroyContainer,
			Doc: "A host destroys again after an answer that was lost.",
		},
		{
			ID: "C07-destroy-running", Title: "destroying a container with running processes kills them and ends their followers with NotFound of the container",
			Rules: []int{8}, Level: Must, Profile: Core, Run: runDestroyRunning,
			Doc: "A destroyed container that still writes changes volumes that are in use elsewhere. A follower that is left waits for ever.",
		},
		{
			ID: "C19-mount-rw", Title: "what is in a mounted volume is there, and what is written there is in the volume", Rules: []int{9}, Level: Must, Profile: Core, Run: runMountWritable,
			Doc: "Inputs and outputs of every step.",
		},
		{
			ID: "C20-mount-ro", Title: "a volume mounted read-only is not written", Rules: []int{9}, Level: Must, Profile: Core, Run: runMountReadOnly,
			Doc: "Read-only that is only asked for politely lets steps change each other's caches.",
		},
		{
			ID: "C21-mount-nested", Title: "mounts inside each other are all there, in whatever order they are given", Rules: []int{11}, Level: Must, Profile: Core, Run: runMountNested,
			Doc: "The outer mount hides the inner one if it comes second.",
		},
		{
			ID: "C23-spec-refused", Title: "a spec that can never work is Invalid and makes nothing", Rules: []int{14, 11}, Level: Must, Profile: Core, Run: runSpecRefused,
			Doc: "A host does not try again what is Invalid, and tells the user.",
		},
		{
			ID: "C25-mount-shared", Title: "one sealed volume is mounted in several containers at once", Rules: []int{9}, Level: Must, Profile: Core, Run: runMountShared,
			Doc: "Images and caches are shared.",
		},
		{
			ID: "C26-mount-missing", Title: "mounting a volume that is not there is NotFound of that volume", Rules: []int{3, 9}, Level: Must, Profile: Core, Run: runMountMissing,
			Doc: "An empty directory in place of a lost input lets a step run on nothing.",
		},
		{
			ID: "P19-dir", Title: "a process begins in its own directory, else the container's, which is made where missing, else in /", Rules: []int{11}, Level: Must, Profile: Core, Run: runDir,
			Doc: "Relative paths of every script hang on it.",
		},
		{
			ID: "Y02-undeclared", Title: "what needs a feature that the worker does not name is Unsupported, names it, and makes nothing", Rules: []int{14}, Level: Must, Profile: Core, Run: runUndeclared,
			Doc: "A limit or an isolation that is silently ignored is worse than none: somebody relies on it.",
		},
		{
			ID: "Y05-undeclared-user", Title: "any user, root too, is Unsupported where users is not named", Rules: []int{14}, Level: Must, Profile: Core, Run: runUndeclaredUser,
			Doc: "A host that asks for a user must be able to rely on the feature's name alone, not on which user it asks for.",
		},
		{
			ID: "Y03-files-read", Title: "where files.read is named, files are looked at and read as they are", Rules: []int{9, 11}, Level: Must, Profile: Core, Run: runFileRead,
			Needs: []sdk.Feature{sdk.FeatureFileRead}, Doc: "A host reads single files without streaming the volume.",
		},
		{
			ID: "Y04-image-volume", Title: "where image.volume is named, the rootfs of a sealed volume is the container's root, and stays as it was", Rules: []int{9}, Level: Must, Profile: Core, Run: runImageVolume,
			Needs: []sdk.Feature{sdk.FeatureImageVolume}, Env: []Requirement{EnvBare}, Doc: "Containers write to their root; the next container of the image must not see that.",
		},
		{
			ID: "K01-cancelled-before", Title: "a call whose context has ended already returns that error and does nothing", Rules: []int{2, 14}, Level: Must, Profile: Core, Run: runCancelledBefore,
			Doc: "A host that gave up on a call does not expect it to happen later.",
		},
	}
}

func runMinimalContainer(ctx context.Context, c *C) {
	spec := c.ContainerSpec()
	var phases []string
	c.OK(c.W.CreateContainer(ctx, spec, func(p sdk.Progress) { phases = append(phases, p.Phase) }), "creating a container")
	for _, p := range phases {
		if p == "" {
			c.Errorf("progress names its phase", "progress without a phase")
		}
	}
	i, ok := c.ListContainer(ctx, spec.ID)
	if !ok || i.State != sdk.ContainerReady || i.Token != spec.Token {
		c.Errorf("after success the container is ready, and listed with its token", "listed: %v, state %s, token %q; want ready and %q", ok, i.State, i.Token, spec.Token)
	}
	infos, err := c.W.ListProcesses(ctx, spec.ID)
	c.OK(err, "listing the processes of a new container")
	if len(infos) != 0 {
		c.Errorf("a new container has run nothing", "%d processes are listed", len(infos))
	}
	c.WantOutput(c.Exec(ctx, spec.ID, c.Commands.Print("hello", "")), "hello", "", "a process in it")
}

func runDestroyContainer(ctx context.Context, c *C) {
	id := c.Container(ctx)
	p := c.Spec(c.Commands.Exit(0))
	c.OK(c.W.StartProcess(ctx, id, p), "starting a process")
	c.Follow(ctx, id, p.ID)
	c.OK(c.W.DestroyContainer(ctx, id), "destroying")
	if _, ok := c.ListContainer(ctx, id); ok {
		c.Errorf("what was destroyed is gone when the call returns", "container %q is still listed", id)
	}
	c.OK(c.W.DestroyContainer(ctx, id), "destroying again")
	const why = "of a destroyed container nothing is known: NotFound of a process would say that it never ran"
	_, err := c.W.ListProcesses(ctx, id)
	c.WantNotFound(err, sdk.KindContainer, why, "listing processes of a destroyed container")
	c.WantNotFound(c.W.StartProcess(ctx, id, p), sdk.KindContainer, why, "starting in a destroyed container")
	c.WantNotFound(c.W.FollowProcess(ctx, id, p.ID, 0, sdk.Follow{}), sdk.KindContainer, why, "following in a destroyed container")
	c.WantNotFound(c.W.SignalProcess(ctx, id, p.ID, sdk.TERM), sdk.KindContainer, why, "signalling in a destroyed container")
}

func runDestroyRunning(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	ps := []sdk.ProcessID{
		c.Started(ctx, id, c.Commands.Sleep()),
		c.Started(ctx, id, c.Commands.Trap(sdk.TERM, 0)),
	}
	cat := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	ps = append(ps, cat)
	errs := make(chan error, len(ps))
	following := make(chan struct{}, len(ps))
	for _, p := range ps {
		c.Go(func(ctx context.Context) {
			errs <- c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
				Opened: func(sdk.Opened) error { following <- struct{}{}; return nil },
				Exit: func(e sdk.Exit) error {
					if e.Code == 0 {
						c.Errorf("what was killed has not succeeded", "a process under DestroyContainer exited with code 0")
					}
					return nil
				},
				Acks: make(chan sdk.Position),
			})
		})
	}
	for range ps {
		c.Await(ctx, following, "a follower's Opened")
	}
	c.OK(c.W.DestroyContainer(ctx, id), "destroying under running processes")
	for range ps {
		err := c.AwaitError(ctx, errs, "a follower's end after its container was destroyed")
		c.WantNotFound(err, sdk.KindContainer, "the host that asked reads it as aborted; anything else it would take for a loss", "a follower under DestroyContainer")
	}
	if _, ok := c.ListContainer(ctx, id); ok {
		c.Errorf("what was destroyed is gone when the call returns", "the container is still listed")
	}
	c.OK(c.W.SealVolume(ctx, v), "sealing what it had mounted: nothing can write any more")
}

// Await waits for a word on a channel.
func (c *C) Await(ctx context.Context, ch <-chan struct{}, what string) {
	select {
	case <-ch:
	case <-ctx.Done():
		c.Fatalf("what a host waits for must come", "%s did not come", what)
	}
}

// AwaitError waits for a call's error on a channel.
func (c *C) AwaitError(ctx context.Context, ch <-chan error, what string) error {
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		c.Fatalf("what a host waits for must come", "%s did not come", what)
		return nil
	}
}

func runMountWritable(ctx context.Context, c *C) {
	v := c.Filled(ctx, File("in", "from outside"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/made/where/missing"}))
	c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/made/where/missing/in")), "from outside", "", "reading the volume")
	j := c.Exec(ctx, id, c.Commands.Append("/made/where/missing/out", "from inside"))
	c.WantExit(j, 0, "writing to the volume")
	if out := find(c.Tree(ctx, v, ""), "out"); out.Data != "from inside" {
		c.Errorf("what a process wrote is in the volume when it has ended", "out is %q, want %q", out.Data, "from inside")
	}
	other := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	c.WantOutput(c.Exec(ctx, other, c.Commands.CatFile("/v/out")), "from inside", "", "reading it in the next container")
}

func runMountReadOnly(ctx context.Context, c *C) {
	v := c.Filled(ctx, File("a", "kept"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v", ReadOnly: true}))
	c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/v/a")), "kept", "", "reading")
	for _, path := range []string{"/v/a", "/v/new"} {
		if j := c.Exec(ctx, id, c.Commands.Append(path, "x")); j.Exit.Code == 0 {
			c.Errorf("read-only is read-only", "writing %s exited with code 0", path)
		}
	}
	c.WantTree(c.Tree(ctx, v, ""), []Entry{File("a", "kept")}, 0, "the volume afterwards")
	c.OK(c.W.SealVolume(ctx, v), "sealing a volume that is only mounted read-only")
}

func runMountNested(ctx context.Context, c *C) {
	outer, middle, inner := c.Filled(ctx, File("f", "outer")), c.Filled(ctx, File("f", "middle")), c.Filled(ctx, File("f", "inner"))
	mounts := []sdk.Mount{{Volume: outer, Path: "/m"}, {Volume: middle, Path: "/m/a/b", ReadOnly: true}, {Volume: inner, Path: "/m/a/b/c/d"}}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		id := c.Container(ctx, c.Mounts(mounts[order[0]], mounts[order[1]], mounts[order[2]]))
		for path, want := range map[string]string{"/m/f": "outer", "/m/a/b/f": "middle", "/m/a/b/c/d/f": "inner"} {
			c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile(path)), want, "", "%s with mounts in order %v", path, order)
		}
		c.WantExit(c.Exec(ctx, id, c.Commands.Append("/m/a/b/c/d/out", "x")), 0, "writing to the innermost, with mounts in order %v", order)
		if j := c.Exec(ctx, id, c.Commands.Append("/m/a/b/out", "x")); j.Exit.Code == 0 {
			c.Errorf("read-only is read-only", "writing to the read-only one in the middle exited with code 0, with mounts in order %v", order)
		}
		c.OK(c.W.DestroyContainer(ctx, id), "destroying the container")
	}
	if out := find(c.Tree(ctx, inner, ""), "out"); out.Data != "xxx" {
		c.Errorf("a mount inside another is the volume itself", "out in the innermost volume is %q, want %q", out.Data, "xxx")
	}
}

func runSpecRefused(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	for what, with := range map[string]func(*sdk.ContainerSpec){
		"a relative mount path":   c.Mounts(sdk.Mount{Volume: v, Path: "v"}),
		"a mount path with ..":    c.Mounts(sdk.Mount{Volume: v, Path: "/a/../v"}),
		"a mount at /":            c.Mounts(sdk.Mount{Volume: v, Path: "/"}),
		"two mounts at one path":  c.Mounts(sdk.Mount{Volume: v, Path: "/v"}, sdk.Mount{Volume: v, Path: "/v"}),
		"a NUL in a mount path":   c.Mounts(sdk.Mount{Volume: v, Path: "/v\x00w"}),
		"a relative dir":          func(s *sdk.ContainerSpec) { s.Dir = "work" },
		"a dir with ..":           func(s *sdk.ContainerSpec) { s.Dir = "/a/../.." },
		"an image given twice":    func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: v, Ref: "x"} },
		"a negative memory limit": func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = -1 },
		"a mount of a bad volume": c.Mounts(sdk.Mount{Volume: "../x", Path: "/v"}),
	} {
		spec := c.ContainerSpec(with)
		c.WantClass(c.W.CreateContainer(ctx, spec, nil), sdk.Invalid, "what can never work is refused, not bent into shape", "a container with %s", what)
		c.wantNoContainer(ctx, spec.ID)
	}
	for what, with := range map[string]func(*sdk.VolumeSpec){
		"two sources":      func(s *sdk.VolumeSpec) { s.Clone, s.Import = v, "/x" },
		"a negative owner": func(s *sdk.VolumeSpec) { s.UID = -1 },
	} {
		spec := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
		with(&spec)
		c.WantClass(c.W.CreateVolume(ctx, spec), sdk.Invalid, "what can never work is refused, not bent into shape", "a volume with %s", what)
		c.wantNoVolume(ctx, spec.ID)
	}
}

func runMountShared(ctx context.Context, c *C) {
	v := c.Sealed(ctx, File("a", "shared"))
	var ids []sdk.ContainerID
	for i := range 3 {
		ids = append(ids, c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: fmt.Sprintf("/v%d", i), ReadOnly: true})))
	}
	for i, id := range ids {
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile(fmt.Sprintf("/v%d/a", i))), "shared", "", "container %d", i)
	}
	c.OK(c.W.DestroyContainer(ctx, ids[0]), "destroying one of them")
	c.WantOutput(c.Exec(ctx, ids[1], c.Commands.CatFile("/v1/a")), "shared", "", "another one afterwards")
}

func runMountMissing(ctx context.Context, c *C) {
	spec := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: c.Volume(ctx), Path: "/v"}, sdk.Mount{Volume: c.VolumeID(), Path: "/w"}))
	c.WantNotFound(c.W.CreateContainer(ctx, spec, nil), sdk.KindVolume, "a host must learn what is lost", "mounting a volume that never was")
	if i, ok := c.ListContainer(ctx, spec.ID); ok && i.State == sdk.ContainerReady {
		c.Errorf("after an error no container is ready", "the container is %s", i.State)
	}
}

func runDir(ctx context.Context, c *C) {
	id := c.Container(ctx)
	c.WantOutput(c.Exec(ctx, id, c.Commands.Dir()), "/\n", "", "without any directory")
	v := c.Volume(ctx)
	id = c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}), func(s *sdk.ContainerSpec) { s.Dir = "/v/made/here" })
	c.WantOutput(c.Exec(ctx, id, c.Commands.Dir()), "/v/made/here\n", "", "with a directory of the container")
	c.WantOutput(c.Exec(ctx, id, c.Commands.Dir(), func(s *sdk.ProcessSpec) { s.Dir = "/v" }), "/v\n", "", "with a directory of the process")
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("file", "x")), 0, "writing to a relative path")
	if f := find(c.Tree(ctx, v, ""), "made/here/file"); f.Data != "x" {
		c.Errorf("relative paths begin in the directory", "made/here/file is %q, want %q", f.Data, "x")
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
	if !c.Status.Has(sdk.FeatureUsageReport) {
		_, err := sdk.ContainerUsage(ctx, w, container)
		want(err, sdk.FeatureUsageReport)
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
