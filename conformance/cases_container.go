package conformance

import (
	"context"
	"fmt"

	"github.com/slipway-run/slipway/sdk"
)

// containerCases check where processes run.
func containerCases() []Case {
	return []Case{
		{
			ID: "C01-minimal", Title: "a container without anything is listed as ready and runs a process", Promises: []string{"1g"}, Level: Must, Profile: Core, Run: runMinimalContainer,
			Doc: "The least that every runtime can do.",
		},
		{
			ID: "C06-destroy", Title: "destroying a container takes it off the list, and again succeeds", Promises: []string{"1f", "1e"}, Level: Must, Profile: Core, Run: runDestroyContainer,
			Doc: "A host destroys again after an answer that was lost.",
		},
		{
			ID: "C07-destroy-running", Title: "destroying a container with running processes kills them and ends their followers with NotFound of the container",
			Promises: []string{"8f", "8g"}, Level: Must, Profile: Core, Run: runDestroyRunning,
			Doc: "A destroyed container that still writes changes volumes that are in use elsewhere. A follower that is left waits for ever.",
		},
		{
			ID: "C19-mount-rw", Title: "what is in a mounted volume is there, and what is written there is in the volume", Promises: []string{"9i"}, Level: Must, Profile: Core, Run: runMountWritable,
			Doc: "Inputs and outputs of every step.",
		},
		{
			ID: "C20-mount-ro", Title: "a volume mounted read-only is not written", Promises: []string{"9j"}, Level: Must, Profile: Core, Run: runMountReadOnly,
			Doc: "Read-only that is only asked for politely lets steps change each other's caches.",
		},
		{
			ID: "C21-mount-nested", Title: "mounts inside each other are all there, in whatever order they are given", Promises: []string{"11a"}, Level: Must, Profile: Core, Run: runMountNested,
			Doc: "The outer mount hides the inner one if it comes second.",
		},
		{
			ID: "C23-spec-refused", Title: "a spec that can never work is Invalid and makes nothing", Promises: []string{"14e", "11a"}, Level: Must, Profile: Core, Run: runSpecRefused,
			Doc: "A host does not try again what is Invalid, and tells the user.",
		},
		{
			ID: "C25-mount-shared", Title: "one sealed volume is mounted in several containers at once", Promises: []string{"9i"}, Level: Must, Profile: Core, Run: runMountShared,
			Doc: "Images and caches are shared.",
		},
		{
			ID: "C26-mount-missing", Title: "mounting a volume that is not there is NotFound of that volume", Promises: []string{"9h"}, Level: Must, Profile: Core, Run: runMountMissing,
			Doc: "An empty directory in place of a lost input lets a step run on nothing.",
		},
		{
			ID: "P19-dir", Title: "a process begins in its own directory, else the container's, which is made where missing, else in /", Promises: []string{"11c"}, Level: Must, Profile: Core, Run: runDir,
			Doc: "Relative paths of every script hang on it.",
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
	below := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: v, Path: "/v", ReadOnly: true}, sdk.Mount{Volume: c.Volume(ctx), Path: "/v/below"}))
	if err := c.W.CreateContainer(ctx, below, nil); err != nil {
		c.WantReason(err, sdk.Invalid, sdk.ReasonPath, "a mount's path that cannot be made is the caller's mistake", "a mount at a path that a read-only volume lacks")
	}
	c.WantTree(c.Tree(ctx, v, ""), []Entry{File("a", "kept")}, 0, "the volume afterwards")
	c.OK(c.W.SealVolume(ctx, v), "sealing a volume that is only mounted read-only")
}

func runMountNested(ctx context.Context, c *C) {
	outer, middle, inner := c.Filled(ctx, File("f", "outer")), c.Filled(ctx, File("f", "middle"), Dir("c"), Dir("c/d")), c.Filled(ctx, File("f", "inner"))
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
		"a negative memory limit": func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = -1 },
		"a limit of containers":   func(s *sdk.ContainerSpec) { s.Limits.Containers = 1 },
		"a limit of volumes":      func(s *sdk.ContainerSpec) { s.Limits.Volumes = 1 },
		"a mount of a bad volume": c.Mounts(sdk.Mount{Volume: "../x", Path: "/v"}),
		"an image given twice":    func(s *sdk.ContainerSpec) { s.Image = sdk.Image{Volume: v, Ref: "x"} },
	} {
		spec := c.ContainerSpec(with)
		if spec.Image.Ref != "" && !(c.Status.Has(sdk.FeatureImageVolume) && c.Status.Has(sdk.FeatureImageRef)) {
			continue // either alone may be refused as Unsupported
		}
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
