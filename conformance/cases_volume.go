package conformance

import (
	"bytes"
	"context"

	"github.com/slipway-run/slipway/sdk"
)

// volumeCases check the life of a volume: open, sealed, cloned, gone.
func volumeCases() []Case {
	return []Case{
		{
			ID: "V01-empty", Title: "a new volume is open and holds nothing", Promises: []string{"9a"}, Level: Must, Profile: Core, Run: runEmptyVolume,
			Doc: "What is left of an earlier volume in a new one ends up in somebody's results.",
		},
		{
			ID: "V04-destroy", Title: "destroying a volume takes it off the list, and again succeeds", Promises: []string{"1f", "1e"}, Level: Must, Profile: Core, Run: runDestroyVolume,
			Doc: "A host destroys again after an answer that was lost. What only looks destroyed fills the worker.",
		},
		{
			ID: "V06-clone-equal", Title: "a clone is a new open volume with the parent's content", Promises: []string{"9e"}, Level: Must, Profile: Core, Run: runCloneEqual,
			Doc: "Every step's input is a clone. Copies by tar or by overlay lose what their author forgot: links, modes, times, empty directories.",
		},
		{
			ID: "V07-clone-isolated", Title: "what is written to a clone shows neither in its parent nor in its siblings", Promises: []string{"9f"}, Level: Must, Profile: Core, Run: runCloneIsolated,
			Doc: "One step's writes in another's input make results that nobody can explain. Hard links instead of copies do exactly that.",
		},
		{
			ID: "V08-clone-missing", Title: "cloning what is not there is NotFound of a volume and makes nothing", Promises: []string{"9h"}, Level: Must, Profile: Core, Run: runCloneMissing,
			Doc: "An empty volume in place of a lost input lets a step run on nothing.",
		},
		{
			ID: "V10-clone-chain", Title: "clones of clones work, sixteen deep", Promises: []string{"9e"}, Level: Must, Profile: Core, Run: runCloneChain,
			Doc: "Each step of a pipeline that continues an input adds a layer; overlays have bounds.",
		},
		{
			ID: "V21-clone-open", Title: "cloning an open volume is refused with not-sealed, or is a copy of that moment where clone.live is named", Promises: []string{"9g"}, Level: Must, Profile: Core, Run: runCloneOpen,
			Doc: "A copy of what is being written is whatever it happens to be, unless the backend can take it at one moment.",
		},
		{
			ID: "V22-seal", Title: "sealing is idempotent and ends all writing by streams", Promises: []string{"9b"}, Level: Must, Profile: Core, Run: runSeal,
			Doc: "A sealed volume is shared between steps; a write then changes inputs of work that is under way.",
		},
		{
			ID: "V23-seal-mounted", Title: "a sealed volume is mounted read-only or not at all", Promises: []string{"9c"}, Level: Must, Profile: Core, Run: runSealMounted,
			Doc: "The second way into a sealed volume is a mount.",
		},
		{
			ID: "V24-seal-in-use", Title: "a volume that a living process can write is not sealed, and after sealing none starts that could", Promises: []string{"9d"}, Level: Must, Profile: Core, Run: runSealInUse,
			Doc: "A leftover process that goes on writing changes an artifact after it was registered.",
		},
	}
}

func runEmptyVolume(ctx context.Context, c *C) {
	id := c.Volume(ctx)
	c.WantTree(c.Tree(ctx, id, ""), nil, 0, "a new volume")
	if i, ok := c.ListVolume(ctx, id); !ok || i.State != sdk.VolumeOpen || i.Parent != "" {
		c.Errorf("a volume begins open", "listed: %v, state %s, parent %q", ok, i.State, i.Parent)
	}
}

func runDestroyVolume(ctx context.Context, c *C) {
	open, sealed := c.Filled(ctx, File("a", "a")), c.Sealed(ctx, File("b", "b"))
	for _, id := range []sdk.VolumeID{open, sealed} {
		c.OK(c.W.DestroyVolume(ctx, id), "destroying volume %q", id)
		if _, ok := c.ListVolume(ctx, id); ok {
			c.Errorf("what was destroyed is gone when the call returns", "volume %q is still listed", id)
		}
		var b bytes.Buffer
		c.WantNotFound(c.W.StreamOut(ctx, id, sdk.StreamOut{}, &b), sdk.KindVolume, "what was destroyed is gone", "streaming out of volume %q, which is destroyed", id)
		c.OK(c.W.DestroyVolume(ctx, id), "destroying volume %q again", id)
	}
}

// someTree has a bit of everything that a clone may lose.
func someTree() []Entry {
	setuid := File("bin/tool", "#!/bin/sh\n")
	setuid.Mode = 0o4755
	owned := File("owned", "by others")
	owned.UID, owned.GID = 1234, 5678
	return []Entry{
		Dir("bin"), setuid, Dir("empty"), File("empty-file", ""), File("hello", "hello, world\n"), Symlink("link", "hello"),
		Hardlink("other-name", "hello"), owned,
	}
}

// treeTimes is what to ignore of trees on this worker.
func (c *C) treeTimes() Ignore {
	if c.Status.Has(sdk.FeatureTarDirTimes) {
		return 0
	}
	return IgnoreDirTimes
}

func runCloneEqual(ctx context.Context, c *C) {
	parent := c.Sealed(ctx, someTree()...)
	clone := c.Clone(ctx, parent)
	c.WantTree(c.Tree(ctx, clone, ""), someTree(), c.treeTimes(), "a clone")
	i, ok := c.ListVolume(ctx, clone)
	if !ok || i.State != sdk.VolumeOpen || i.Parent != parent {
		c.Errorf("a clone is a new, open volume, and tells its parent", "listed: %v, state %s, parent %q; want open and %q", ok, i.State, i.Parent, parent)
	}
}

func runCloneIsolated(ctx context.Context, c *C) {
	parent := c.Sealed(ctx, File("a", "parent"), Dir("d"), File("d/deep", "parent"), Hardlink("d/z", "d/deep"))
	first, second := c.Clone(ctx, parent), c.Clone(ctx, parent)
	c.Put(ctx, first, File("a", "first"), File("d/deep", "first"), File("new", "first"))
	c.Put(ctx, second, File("a", "2nd"))
	want := []Entry{File("a", "parent"), Dir("d"), File("d/deep", "parent"), Hardlink("d/z", "d/deep")}
	c.WantTree(c.Tree(ctx, parent, ""), want, IgnoreTimes, "the parent after its clones were written")
	if a := find(c.Tree(ctx, first, ""), "a"); a.Data != "first" {
		c.Errorf("a clone keeps its own writes", "a in the first clone is %q, want %q", a.Data, "first")
	}
	want[0].Data = "2nd"
	c.WantTree(c.Tree(ctx, second, ""), want, IgnoreTimes, "the second clone")

	container := c.Container(ctx, c.Mounts(sdk.Mount{Volume: second, Path: "/v"}))
	c.WantExit(c.Exec(ctx, container, c.Commands.Append("/v/d/deep", "+")), 0, "appending to a file of the second clone")
	if deep := find(c.Tree(ctx, second, ""), "d/deep"); deep.Data != "parent+" {
		c.Errorf("a clone keeps its own writes", "d/deep in the second clone is %q, want %q", deep.Data, "parent+")
	}
	want[0].Data = "parent"
	c.WantTree(c.Tree(ctx, parent, ""), want, IgnoreTimes, "the parent after a process wrote to a clone")
	if deep := find(c.Tree(ctx, first, ""), "d/deep"); deep.Data != "first" {
		c.Errorf("clones are isolated from each other", "d/deep in the first clone is %q, want %q", deep.Data, "first")
	}
}

func find(entries []Entry, path string) Entry {
	for _, e := range entries {
		if e.Path == path {
			return e
		}
	}
	return Entry{}
}

func runCloneMissing(ctx context.Context, c *C) {
	id := c.VolumeID()
	err := c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Labels: c.Labels(), Clone: c.VolumeID()})
	c.WantNotFound(err, sdk.KindVolume, "a host must learn that the source is lost", "cloning a volume that never was")
	c.wantNoVolume(ctx, id)
}

func runCloneChain(ctx context.Context, c *C) {
	want := []Entry{File("0", "0")}
	id := c.Sealed(ctx, want...)
	for i := range 16 {
		id = c.Clone(ctx, id)
		f := File(string(rune('a'+i)), "x")
		want = append(want, f)
		c.Put(ctx, id, f)
		c.OK(c.W.SealVolume(ctx, id), "sealing clone %d", i+1)
	}
	c.WantTree(c.Tree(ctx, id, ""), want, 0, "the last of sixteen clones")
}

func runCloneOpen(ctx context.Context, c *C) {
	parent := c.Filled(ctx, File("a", "before"))
	id := c.VolumeID()
	err := c.W.CreateVolume(ctx, sdk.VolumeSpec{ID: id, Token: sdk.NewToken(), Labels: c.Labels(), Clone: parent})
	if !c.Status.Has(sdk.FeatureCloneLive) {
		c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonNotSealed, "a copy of what is being written is nothing one can rely on", "cloning an open volume")
		c.wantNoVolume(ctx, id)
		return
	}
	c.OK(err, "cloning an open volume with clone.live")
	c.Put(ctx, parent, File("a", "after"), File("b", "new"))
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "before")}, 0, "a clone of an open volume after its parent was written")
	c.Put(ctx, id, File("a", "clone"))
	c.WantTree(c.Tree(ctx, parent, ""), []Entry{File("a", "after"), File("b", "new")}, 0, "the parent after its clone was written")
}

func runSeal(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("a", "sealed"))
	for i := range 3 {
		c.OK(c.W.SealVolume(ctx, id), "sealing, time %d", i+1)
	}
	if i, _ := c.ListVolume(ctx, id); i.State != sdk.VolumeSealed {
		c.Errorf("a host trusts the list", "state is %s after sealing", i.State)
	}
	err := c.W.StreamIn(ctx, id, sdk.StreamIn{}, bytes.NewReader(c.Pack([]Entry{File("a", "changed"), File("b", "new")})))
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonSealed, "sealed is for ever", "streaming into a sealed volume")
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "sealed")}, 0, "the sealed volume afterwards")
}

func runSealMounted(ctx context.Context, c *C) {
	id := c.Sealed(ctx, File("a", "sealed"))
	spec := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: id, Path: "/v"}))
	err := c.W.CreateContainer(ctx, spec, nil)
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonSealed, "sealed is for ever", "mounting a sealed volume writable")
	if i, ok := c.ListContainer(ctx, spec.ID); ok && i.State == sdk.ContainerReady {
		c.Errorf("after an error no container is ready", "the container with a sealed writable mount is %s", i.State)
	}
	container := c.Container(ctx, c.Mounts(sdk.Mount{Volume: id, Path: "/v", ReadOnly: true}))
	c.WantOutput(c.Exec(ctx, container, c.Commands.CatFile("/v/a")), "sealed", "", "reading a sealed volume")
	if j := c.Exec(ctx, container, c.Commands.Append("/v/a", "changed")); j.Exit.Code == 0 {
		c.Errorf("sealed is for ever", "a process wrote to a sealed volume")
	}
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "sealed")}, 0, "the sealed volume afterwards")
}

func runSealInUse(ctx context.Context, c *C) {
	id := c.Filled(ctx, File("a", "open"))
	container := c.Container(ctx, c.Mounts(sdk.Mount{Volume: id, Path: "/v"}))
	p := c.Started(ctx, container, c.Commands.Sleep())
	c.WantReason(c.W.SealVolume(ctx, id), sdk.FailedPrecondition, sdk.ReasonInUse, "a living process could still write", "sealing under a process")
	if i, _ := c.ListVolume(ctx, id); i.State != sdk.VolumeOpen {
		c.Errorf("a refusal changes nothing", "state is %s after sealing was refused", i.State)
	}
	c.OK(c.W.SignalProcess(ctx, container, p, sdk.KILL), "killing the process")
	c.Follow(ctx, container, p)
	c.OK(c.W.SealVolume(ctx, id), "sealing after the process has ended")

	spec := c.Spec(c.Commands.Append("/v/a", "changed"))
	err := c.W.StartProcess(ctx, container, spec)
	c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonSealed, "a process there could write to what is sealed", "starting in a container with a sealed writable mount")
	if _, ok := c.Process(ctx, container, spec.ID); ok {
		c.Errorf("what was refused left no record", "the process that was refused is listed")
	}
	c.WantTree(c.Tree(ctx, id, ""), []Entry{File("a", "open")}, 0, "the sealed volume afterwards")
}
