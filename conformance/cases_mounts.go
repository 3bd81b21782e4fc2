package conformance

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// mountCases check volumes in containers beyond the first one.
func mountCases() []Case {
	return []Case{
		{
			ID: "C27-mount-hides", Title: "a mount hides what lies below it, and changes none of it", Promises: []string{"9i"}, Level: Must, Profile: Core, Run: runMountHides,
			Doc: "Catches a mount that is a copy into the directory that was there: the other volume's files appear in the first one.",
		},
		{
			ID: "C28-mount-many", Title: "twenty volumes in one container are each where they belong", Promises: []string{"9i"}, Level: Must, Profile: Core, Run: runMountMany,
			Doc: "Catches bounds of a backend's own, and lists of mounts that are cut or mixed up.",
		},
		{
			ID: "C29-mount-twice", Title: "one sealed volume at two places of one container is there twice", Promises: []string{"9i"}, Level: Must, Profile: Core, Run: runMountTwice,
			Doc: "Catches mounts that are kept by volume instead of by path.",
		},
		{
			ID: "C30-mount-outlives", Title: "what was written to a volume outlives the container that wrote it", Promises: []string{"9i"}, Level: Must, Profile: Core, Run: runMountOutlives,
			Doc: "Catches a destruction that empties what was mounted, and writes that stay in the container.",
		},
		{
			ID: "C35-many-containers", Title: "ten containers at once keep their processes, files and output apart", Promises: []string{"5l", "9k"}, Level: Must, Profile: Core, Run: runManyContainers, Timeout: 2 * DefaultTimeout,
			Doc: "Catches anything that is kept once for a worker and belongs to a container.",
		},
		{
			ID: "C36-process-ids", Title: "a process's id says nothing of another container's process", Promises: []string{"3f"}, Level: Must, Profile: Core, Run: runProcessElsewhere,
			Doc: "Catches one table of processes for all containers: following in the wrong one shows another tenant's output.",
		},
		{
			ID: "P32-dir-made", Title: "a process's directory is made where missing, and seen by the processes after it", Promises: []string{"11c"}, Level: Must, Profile: Core, Run: runDirMade,
			Doc: "Catches a directory that is made somewhere else than in the mounted volume, or for one process only.",
		},
		{
			ID: "P37-dir-refused", Title: "a process's directory that is a file, or below one, is Invalid with the reason path, and nothing starts",
			Promises: []string{"11j"}, Level: Must, Profile: Core, Run: runDirRefused,
			Doc: "Catches a process that begins somewhere else, and an error that a host would try again.",
		},
		{
			ID: "P36-env-defaults", Title: "PATH and HOME are there where nobody gave them, and are the host's where it did", Promises: []string{"13b"}, Level: Must, Profile: Core, Run: runEnvDefaults,
			Doc: "Catches processes that find no program or write to /, and defaults that win over what was asked for.",
		},
		{
			ID: "P34-env-many", Title: "a thousand variables come, each with its own value", Promises: []string{"13a"}, Level: Must, Profile: Core, Run: runEnvMany,
			Doc: "Catches bounds on the number of variables, and maps that lose or swap values.",
		},
		{
			ID: "V16-clone-labels", Title: "a clone has its own labels and token, and none of its parent's", Promises: []string{"9e"}, Level: Must, Profile: Core, Run: runCloneLabels,
			Doc: "Catches metadata that is copied with the content: a host finds the clone under its parent's cache key.",
		},
		{
			ID: "V19-clone-empty", Title: "an empty sealed volume is cloned and mounted like any other", Promises: []string{"9e"}, Level: Must, Profile: Core, Run: runCloneEmpty,
			Doc: "Catches backends that take an empty source for a missing one.",
		},
		{
			ID: "V25-bytes", Title: "the size that the list tells is unknown, or at least that of the content", Promises: []string{"10e"}, Level: Must, Profile: Core, Run: runVolumeBytes,
			Doc: "Catches zero for unknown: a host that places by locality takes a gigabyte for nothing.",
		},
		{
			ID: "V29-destroy-clones", Title: "destroying clones leaves the parent and the other clones as they are", Promises: []string{"9f"}, Level: Must, Profile: Core, Run: runDestroyClones,
			Doc: "Catches shared files that are freed, or emptied, with the first of their users.",
		},
		{
			ID: "N05-clone-race", Title: "twenty clones of one volume at once are all right, and apart", Promises: []string{"9e", "9f"}, Level: Must, Profile: Core, Run: runCloneRace,
			Doc: "Catches a parent that is locked, changed or counted wrongly while it is copied.",
		},
		{
			ID: "N09-streams-race", Title: "eight streams into eight volumes, and out of one, do not mix", Promises: []string{"9s"}, Level: Must, Profile: Streaming, Run: runStreamsRace,
			Doc: "Catches a buffer or a temporary name that two streams share.",
		},
		{
			ID: "Z11-mount-link", Title: "a mount below a link in a volume stays in the container", Promises: []string{"9p"}, Level: Must, Profile: Isolation, Run: runMountLink, Env: []Requirement{EnvLocal},
			Doc: "Catches a runtime that makes the mount's directory by following a link that a step has left: it then makes it, and mounts, on the machine.",
		},
		{
			ID: "Z13-tmp", Title: "what one container writes to the usual places for temporary files, no other sees", Promises: []string{"9k"}, Level: Must, Profile: Isolation, Run: runTmp, Env: []Requirement{EnvLocal},
			Doc: "Catches a /tmp or /dev/shm of the machine that is passed into every container.",
		},
	}
}

func runMountHides(ctx context.Context, c *C) {
	outer, inner := c.Filled(ctx, Dir("d"), File("d/hidden", "outer"), File("f", "outer")), c.Filled(ctx, File("shown", "inner"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: outer, Path: "/m"}, sdk.Mount{Volume: inner, Path: "/m/d"}))
	c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/m/d/shown")), "inner", "", "a file of the inner volume")
	if j := c.Exec(ctx, id, c.Commands.CatFile("/m/d/hidden")); j.Exit.Code == 0 {
		c.Errorf("a mount hides what lies below it", "a file below a mount reads %q", j.Stdout)
	}
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("/m/d/new", "x")), 0, "writing to the inner volume")
	c.OK(c.W.DestroyContainer(ctx, id), "destroying the container")
	c.WantTree(c.Tree(ctx, outer, ""), []Entry{Dir("d"), File("d/hidden", "outer"), File("f", "outer")}, IgnoreTimes, "the outer volume")
	c.WantTree(c.Tree(ctx, inner, ""), []Entry{File("shown", "inner"), File("new", "x")}, IgnoreMeta, "the inner volume")
}

func runMountMany(ctx context.Context, c *C) {
	const n = 20
	var mounts []sdk.Mount
	for i := range n {
		v := c.Filled(ctx, File("number", fmt.Sprint(i)))
		mounts = append(mounts, sdk.Mount{Volume: v, Path: fmt.Sprintf("/many/%d", i), ReadOnly: i%2 == 0})
	}
	id := c.Container(ctx, c.Mounts(mounts...))
	for i := range n {
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile(fmt.Sprintf("/many/%d/number", i))), fmt.Sprint(i), "", "volume %d", i)
	}
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("/many/19/out", "x")), 0, "writing to the last one")
	if out := find(c.Tree(ctx, mounts[19].Volume, ""), "out"); out.Data != "x" {
		c.Errorf("what a process wrote is in the volume", "out in the last volume is %q, want %q", out.Data, "x")
	}
}

func runMountTwice(ctx context.Context, c *C) {
	v := c.Sealed(ctx, File("a", "twice"))
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/first", ReadOnly: true}, sdk.Mount{Volume: v, Path: "/other/place", ReadOnly: true}))
	for _, path := range []string{"/first/a", "/other/place/a"} {
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile(path)), "twice", "", "%s", path)
	}
}

func runMountOutlives(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	for i, want := range []string{"1", "12", "123"} {
		id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
		c.WantExit(c.Exec(ctx, id, c.Commands.Append("/v/f", fmt.Sprint(i+1))), 0, "writing in container %d", i+1)
		c.OK(c.W.DestroyContainer(ctx, id), "destroying container %d", i+1)
		if f := find(c.Tree(ctx, v, ""), "f"); f.Data != want {
			c.Errorf("volumes outlive containers", "after container %d the file is %q, want %q", i+1, f.Data, want)
		}
	}
	if i, ok := c.ListVolume(ctx, v); !ok || i.State != sdk.VolumeOpen {
		c.Errorf("volumes outlive containers", "the volume is listed: %v, %s", ok, i.State)
	}
}

func runManyContainers(ctx context.Context, c *C) {
	c.Each(ctx, 10, 5, func(ctx context.Context, i int) {
		v := c.Volume(ctx)
		id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
		text := fmt.Sprintf("container %d\n", i)
		p := c.Spec(c.Commands.Append("/v/f", text))
		p.ID = "the-same-one" // a process's id is its container's affair
		c.OK(c.W.StartProcess(ctx, id, p), "starting in container %d", i)
		c.WantOutput(c.Follow(ctx, id, p.ID), text, "", "container %d", i)
		c.WantExit(c.Exec(ctx, id, c.Commands.Exit(i)), i, "container %d", i)
		if f := find(c.Tree(ctx, v, ""), "f"); f.Data != text {
			c.Errorf("containers have nothing in common", "container %d wrote %q, want %q", i, f.Data, text)
		}
	})
}

func runProcessElsewhere(ctx context.Context, c *C) {
	first, second := c.Container(ctx), c.Container(ctx)
	p := c.Started(ctx, first, c.Commands.Sleep())
	ended := c.Start(ctx, first, c.Commands.Exit(0)) // a worker that takes it for the second's comes to its end, too
	c.Follow(ctx, first, ended)
	const why = "NotFound of a process says that this container has never run it"
	c.WantNotFound(c.W.FollowProcess(ctx, second, ended, 0, sdk.Follow{}), sdk.KindProcess, why, "following another container's process")
	c.WantNotFound(c.W.SignalProcess(ctx, second, p, sdk.KILL), sdk.KindProcess, why, "killing another container's process")
	infos, err := c.W.ListProcesses(ctx, second)
	c.OK(err, "listing processes")
	if len(infos) != 0 {
		c.Errorf("a list holds the container's own processes", "a container that ran nothing lists %d", len(infos))
	}
	if i, _ := c.Process(ctx, first, p); i.State != sdk.ProcessRunning {
		c.Errorf("a signal reaches its own process", "the process is %s after a KILL in another container", i.State)
	}
}

func runDirMade(ctx context.Context, c *C) {
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	in := func(dir string) func(*sdk.ProcessSpec) { return func(s *sdk.ProcessSpec) { s.Dir = dir } }
	c.WantOutput(c.Exec(ctx, id, c.Commands.Dir(), in("/v/a/b")), "/v/a/b\n", "", "a directory that was not there")
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("here", "x"), in("/v/a/b")), 0, "writing to it")
	c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("b/here"), in("/v/a")), "x", "", "reading it from one level up")
	if f := find(c.Tree(ctx, v, ""), "a/b/here"); f.Data != "x" {
		c.Errorf("relative paths begin in the directory", "a/b/here is %q, want %q", f.Data, "x")
	}
}

func runDirRefused(ctx context.Context, c *C) {
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: c.Filled(ctx, File("f", "a file")), Path: "/v"}))
	for _, dir := range []string{"/v/f", "/v/f/below"} {
		err := c.W.StartProcess(ctx, id, c.Spec(c.Commands.Exit(0), func(s *sdk.ProcessSpec) { s.Dir = dir }))
		c.WantReason(err, sdk.Invalid, sdk.ReasonPath, "what can never be is not tried again", "a process in %s, which is a file or below one", dir)
	}
	infos, err := c.W.ListProcesses(ctx, id)
	c.OK(err, "listing processes")
	if len(infos) > 0 {
		c.Errorf("a start that was Invalid leaves no record", "%d processes are listed, want none", len(infos))
	}
}

func runEnvDefaults(ctx context.Context, c *C) {
	id := c.Container(ctx)
	for _, name := range []string{"PATH", "HOME"} {
		if out := string(c.Exec(ctx, id, c.Commands.Env(name)).Stdout); out == "unset\n" || out == "[]\n" {
			c.Errorf("PATH and HOME are given where the host gives none", "%s is %q", name, out)
		}
	}
	own := c.Exec(ctx, id, c.Commands.Env("HOME"), func(s *sdk.ProcessSpec) { s.Env = []string{"HOME=/my/home"} })
	c.WantOutput(own, "[/my/home]\n", "", "HOME from the host")
}

func runEnvMany(ctx context.Context, c *C) {
	id := c.Container(ctx)
	var env []string
	for i := range 1000 {
		env = append(env, fmt.Sprintf("CF_N%d=value %d", i, i*7))
	}
	for _, i := range []int{0, 1, 499, 998, 999} {
		j := c.Exec(ctx, id, c.Commands.Env(fmt.Sprintf("CF_N%d", i)), func(s *sdk.ProcessSpec) { s.Env = slices.Clone(env) })
		c.WantOutput(j, fmt.Sprintf("[value %d]\n", i*7), "", "variable %d of 1000", i)
	}
}

func runCloneLabels(ctx context.Context, c *C) {
	parent := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels()}
	parent.Labels["key"], parent.Labels["of"] = "parent's", "parent"
	c.OK(c.W.CreateVolume(ctx, parent), "creating the parent")
	c.OK(c.W.SealVolume(ctx, parent.ID), "sealing it")
	clone := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: parent.ID}
	clone.Labels["key"] = "clone's"
	c.OK(c.W.CreateVolume(ctx, clone), "cloning it")
	for _, want := range []sdk.VolumeSpec{parent, clone} {
		i, ok := c.ListVolume(ctx, want.ID)
		if !ok || i.Token != want.Token || len(i.Labels) != len(want.Labels) || i.Labels["key"] != want.Labels["key"] || i.Labels["of"] != want.Labels["of"] {
			c.Errorf("labels are those of the creation", "volume %q: listed %v, token %q, labels %v; want %q and %v", want.ID, ok, i.Token, i.Labels, want.Token, want.Labels)
		}
	}
}

func runCloneEmpty(ctx context.Context, c *C) {
	parent := c.Sealed(ctx)
	clone := c.Clone(ctx, parent)
	c.WantTree(c.Tree(ctx, clone, ""), nil, 0, "a clone of an empty volume")
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: parent, Path: "/p", ReadOnly: true}, sdk.Mount{Volume: clone, Path: "/c"}))
	c.WantExit(c.Exec(ctx, id, c.Commands.Append("/c/f", "x")), 0, "writing to the clone")
	c.WantTree(c.Tree(ctx, clone, ""), []Entry{File("f", "x")}, IgnoreMeta, "the clone afterwards")
	c.WantTree(c.Tree(ctx, parent, ""), nil, 0, "the parent afterwards")
}

func runVolumeBytes(ctx context.Context, c *C) {
	const size = 3_000_000
	parent := c.Sealed(ctx, File("a", pattern(size)))
	clone := c.Clone(ctx, parent)
	if i, _ := c.ListVolume(ctx, parent); i.Bytes >= 0 && i.Bytes < size {
		c.Errorf("negative is unknown; all else is the size of the content", "a volume with a file of %d bytes has %d", size, i.Bytes)
	}
	if i, _ := c.ListVolume(ctx, clone); i.Bytes > 100*size { // what it shares may count or not
		c.Errorf("the size is that of the content", "a clone of %d bytes has %d", size, i.Bytes)
	}
}

func runDestroyClones(ctx context.Context, c *C) {
	parent := c.Sealed(ctx, someTree()...)
	var clones []sdk.VolumeID
	for i := range 3 {
		clones = append(clones, c.Clone(ctx, parent))
		c.Put(ctx, clones[i], File("own", fmt.Sprint(i)))
	}
	c.OK(c.W.DestroyVolume(ctx, clones[0]), "destroying the first clone")
	c.OK(c.W.DestroyVolume(ctx, clones[2]), "destroying the last clone")
	c.WantTree(c.Tree(ctx, parent, ""), someTree(), c.treeTimes(), "the parent after two clones were destroyed")
	c.WantTree(c.Tree(ctx, clones[1], ""), append(someTree(), File("own", "1")), c.treeTimes(), "the clone that is left")
	c.WantTree(c.Tree(ctx, c.Clone(ctx, parent), ""), someTree(), c.treeTimes(), "a new clone")
}

func runCloneRace(ctx context.Context, c *C) {
	want := append(someTree(), File("big", pattern(300_000)))
	parent := c.Sealed(ctx, want...)
	c.Each(ctx, 20, 10, func(ctx context.Context, i int) {
		clone := c.Clone(ctx, parent)
		own := File("hello", fmt.Sprintf("clone %d", i))
		c.Put(ctx, clone, own)
		if got := find(c.Tree(ctx, clone, ""), "hello"); got.Data != own.Data {
			c.Errorf("clones are isolated from each other", "clone %d holds %q, want %q", i, got.Data, own.Data)
		}
		if got := find(c.Tree(ctx, clone, "big"), "big"); got.Data != pattern(300_000) {
			c.Errorf("a clone has its parent's content", "clone %d: %s", i, difference(got.Data, pattern(300_000)))
		}
	})
	c.WantTree(c.Tree(ctx, parent, ""), want, c.treeTimes(), "the parent of twenty clones")
}

func runStreamsRace(ctx context.Context, c *C) {
	common := c.Sealed(ctx, File("common", pattern(500_000)))
	c.Each(ctx, 8, 8, func(ctx context.Context, i int) {
		data := pattern(200_000 + i)[i:]
		own := c.Filled(ctx, File(fmt.Sprintf("own-%d", i), data))
		c.WantTree(c.Tree(ctx, own, ""), []Entry{File(fmt.Sprintf("own-%d", i), data)}, 0, "stream %d", i)
		c.WantTree(c.Tree(ctx, common, ""), []Entry{File("common", pattern(500_000))}, 0, "the common volume, reader %d", i)
	})
}

func runMountLink(ctx context.Context, c *C) {
	dir, check := c.canary()
	for _, target := range []string{dir, deeper(dir)} {
		outer, inner := c.Filled(ctx, Symlink("l", target)), c.Filled(ctx, File("f", "inner"))
		for _, path := range []string{"/a/l", "/a/l/below", "/a/l/canary"} {
			spec := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: outer, Path: "/a"}, sdk.Mount{Volume: inner, Path: path}))
			if err := c.W.CreateContainer(ctx, spec, nil); err != nil {
				c.WantClass(err, sdk.Invalid, "where nothing can be mounted, that is said", "a mount at %s, through a link", path)
			} else {
				c.Exec(ctx, spec.ID, c.Commands.Append(path+"/escaped", "out"))
			}
			check()
			c.OK(c.W.DestroyContainer(ctx, spec.ID), "destroying the container")
			check()
		}
	}
}

func runTmp(ctx context.Context, c *C) {
	first, second := c.Container(ctx), c.Container(ctx)
	name := "slipway-" + string(c.VolumeID())
	for _, dir := range []string{"/tmp/", "/var/tmp/", "/dev/shm/", "/run/"} {
		if j := c.Exec(ctx, first, c.Commands.Append(dir+name, "mine")); j.Exit.Code != 0 {
			continue // there is no such place
		}
		c.onMachine(dir + name)
		if j := c.Exec(ctx, second, c.Commands.CatFile(dir+name)); j.Exit.Code == 0 {
			c.Errorf("containers have nothing in common but the volumes that they mount", "another container reads %q in %s", j.Stdout, dir)
		}
	}
}

// onMachine fails the case if a file that a process made is one of the machine's, and removes it.
func (c *C) onMachine(path string) {
	if removed(path) {
		c.Errorf("a container has files of its own", "what a process wrote to %s was written to this machine", path)
	}
}
