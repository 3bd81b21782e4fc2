package conformance

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// restartCases kill the plugin while more is going on than in recoveryCases. Where all is gone afterwards, under a new incarnation, there is
// nothing more to check.
func restartCases() []Case {
	must := func(id, title, doc string, run func(context.Context, *C), promises ...string) Case {
		return Case{ID: id, Title: title, Doc: doc, Promises: promises, Level: Must, Profile: Recovery, Run: run, Env: []Requirement{EnvCrash}, Timeout: 4 * time.Minute}
	}
	return []Case{
		must("R04-kill-destroy", "what was made before kill -9 is destroyed after it, and what was being destroyed, too", "Catches things that only the plugin that made them can take apart.", runKillDestroy, "1e"),
		must("R05-kill-often", "three times kill -9 in a row change no more than one", "Catches a start that repairs what the last one did, and breaks it the second time.", runKillOften, "4b"),
		must("R06-kill-ending", "a process that ends while the plugin is away has its output and exit afterwards", "Catches exits that only the plugin writes down: the step is lost though it succeeded.", runKillEnding, "3d"),
		must("R07-kill-stream", "a stream under kill -9 fails, its volume is never taken for whole, and can be destroyed", "Catches half a tree that is sealed and cached after a restart.", runKillStream, "9t"),
		must("R09-kill-exit", "an exit that was told before kill -9 is told again after it", "Catches exits that are kept in memory: a host that crashed too never learns.", runKillExit, "6e"),
		must("R10-kill-sealed", "what was sealed before kill -9 is sealed after it, and what is open can be written", "Catches a state that is kept beside the plugin's heart only.", runKillSealed, "9b"),
		must("R11-kill-acks", "following goes on after kill -9 from what was acknowledged, without a byte twice or missing", "Catches acknowledgements that are forgotten, or taken for more than they were.", runKillAcks, "5d"),
		must("R12-kill-stdin", "stdin goes on after kill -9 from what was taken", "Catches a count that begins at zero: the host sends all of it again.", runKillStdin, "7e"),
		must("R14-kill-signal", "a process from before kill -9 hears signals after it", "Catches process numbers that only the old plugin knew, and worse, those of something else now.", runKillSignal, "8a"),
		must("R15-kill-clones", "clones, their parents and their labels are what they were before kill -9", "Catches copy-on-write layers whose order is in memory.", runKillClones, "9e"),
		must("R17-kill-tokens", "a start that ran before kill -9 does not run again after it, and its id is not another's", "Catches the one thing that a host may never do: run a step twice.", runKillTokens, "3a"),
		must("R18-kill-create", "a creation under kill -9 is completed by the same call, or was not begun", "Catches what is half made after a crash: it is listed, does not work, and refuses its own token.", runKillCreate, "1c"),
	}
}

// crashed kills the plugin and tells whether there is anything left to look at.
func (c *C) crashed(ctx context.Context, o *Own, before sdk.Status) (kept bool) {
	o.Crash(ctx)
	return !o.forgotten(ctx, before)
}

// ownStatus opens an instance for the case and makes it the one that all of C's methods use.
func (c *C) ownStatus(ctx context.Context) (*Own, sdk.Status) {
	o := c.Own(ctx)
	status, err := o.W.Status(ctx)
	c.OK(err, "asking for the status")
	c.W = o.W
	return o, status
}

func runKillDestroy(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	v := c.Filled(ctx, someTree()...)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	c.Started(ctx, id, c.Commands.Sleep())
	if !c.crashed(ctx, o, before) {
		return
	}
	c.OK(c.W.DestroyContainer(ctx, id), "destroying a container of before kill -9, with a process in it")
	c.wantNoContainer(ctx, id)
	c.OK(c.W.SealVolume(ctx, v), "sealing what it had mounted")
	c.OK(c.W.DestroyVolume(ctx, v), "destroying a volume of before kill -9")
	c.wantNoVolume(ctx, v)
	c.destroyUnderKill(ctx, o, before)
}

// destroyUnderKill kills the plugin while it destroys a container and its volume: the same call finishes that.
func (c *C) destroyUnderKill(ctx context.Context, o *Own, before sdk.Status) {
	var takes time.Duration
	for round := range 1 + c.Times(10) { // in the first one nothing is killed
		v := c.Filled(ctx, someTree()...)
		id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
		c.Started(ctx, id, c.Commands.Sleep())
		destroy := func(ctx context.Context) error {
			return cmp.Or(c.W.DestroyContainer(ctx, id), c.W.DestroyVolume(ctx, v))
		}
		if round > 0 && !c.underKill(ctx, o, before, takes, destroy) {
			return
		}
		began := time.Now()
		c.OK(destroy(ctx), "destroying a container and its volume, once more after kill -9")
		if round == 0 {
			takes = time.Since(began)
		}
		c.wantNoContainer(ctx, id)
		c.wantNoVolume(ctx, v)
	}
}

func runKillOften(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	v := c.Sealed(ctx, someTree()...)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v", ReadOnly: true}))
	p := c.Start(ctx, id, c.Commands.Gate("before\n", "after\n", 5), WithStdin)
	c.AwaitOutput(ctx, id, p, "before\n")
	for range 3 {
		if !c.crashed(ctx, o, before) {
			return
		}
		c.WantOutput(c.Exec(ctx, id, c.Commands.CatFile("/v/hello")), "hello, world\n", "", "a process after kill -9")
	}
	c.WantTree(c.Tree(ctx, v, ""), someTree(), c.treeTimes(), "the volume")
	j := c.FollowStdin(ctx, id, p, strings.NewReader("go\n"))
	c.WantOutput(j, "before\nafter\n", "", "a process over three times kill -9")
	c.WantExit(j, 5, "a process over three times kill -9")
}

func runKillEnding(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	id := c.Container(ctx)
	var ps []sdk.ProcessID
	for range 5 {
		ps = append(ps, c.Start(ctx, id, c.Commands.Lines(5000)))
	}
	if !c.crashed(ctx, o, before) {
		return
	}
	for i, p := range ps {
		j := c.Follow(ctx, id, p)
		c.WantOutput(j, numbers(1, 5000), "", "process %d, which ended about when the plugin was killed", i)
		c.WantExit(j, 0, "process %d, which ended about when the plugin was killed", i)
	}
}

func runKillStream(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	v := c.Volume(ctx)
	archive := c.Pack([]Entry{File("a", pattern(3_000_000)), File("b", "b")})
	in, source := io.Pipe()
	defer source.Close()
	ended := make(chan error, 1)
	w := c.W
	c.Go(func(ctx context.Context) {
		ended <- w.StreamIn(ctx, v, sdk.StreamIn{}, in)
		in.Close()
	})
	source.Write(archive[:1_000_000]) // returns once it was read
	kept := c.crashed(ctx, o, before)
	source.Close()
	err := c.AwaitError(ctx, ended, "the end of a stream under kill -9")
	c.WantClass(err, sdk.Unavailable, "a host must know that the stream was cut by the plugin", "a stream under kill -9")
	if !kept {
		return
	}
	if i, ok := c.ListVolume(ctx, v); ok && i.State == sdk.VolumeSealed {
		c.Errorf("only a host seals", "the volume of a stream that was cut is sealed")
	}
	c.OK(c.W.DestroyVolume(ctx, v), "destroying the volume of a stream that was cut")
	c.wantNoVolume(ctx, v)
	fresh := c.Filled(ctx, File("a", "a"))
	c.WantTree(c.Tree(ctx, fresh, ""), []Entry{File("a", "a")}, 0, "a fresh volume afterwards")
}

func runKillExit(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	id := c.Container(ctx)
	done := c.Start(ctx, id, c.Commands.Gate("output\n", "", 13))
	killed := c.Started(ctx, id, c.Commands.Sleep())
	c.OK(c.W.SignalProcess(ctx, id, killed, sdk.KILL), "killing a process")
	exits := map[sdk.ProcessID]Journal{done: c.Follow(ctx, id, done), killed: c.Follow(ctx, id, killed)}
	if !c.crashed(ctx, o, before) {
		return
	}
	for p, first := range exits {
		var j Journal
		c.OK(c.W.FollowProcess(ctx, id, p, first.End, j.Into(sdk.Follow{})), "following from the end after kill -9")
		if j.Exit == nil || !sameExit(*j.Exit, *first.Exit) {
			c.Errorf("an exit is written once and never changes", "after kill -9: got %s, want %s", exitText(j.Exit), exitText(first.Exit))
		}
		if i, ok := c.Process(ctx, id, p); !ok || i.State != sdk.ProcessExited || i.Exit == nil || !sameExit(*i.Exit, *first.Exit) {
			c.Errorf("the list tells the same exit", "after kill -9: listed %v, %s, %s, want %s", ok, i.State, exitText(i.Exit), exitText(first.Exit))
		}
	}
}

func runKillSealed(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	sealed, open := c.Sealed(ctx, File("a", "sealed")), c.Filled(ctx, File("a", "open"))
	if !c.crashed(ctx, o, before) {
		return
	}
	in := strings.NewReader(string(c.Pack([]Entry{File("a", "changed")})))
	c.WantReason(c.W.StreamIn(ctx, sealed, sdk.StreamIn{}, in), sdk.FailedPrecondition, sdk.ReasonSealed, "sealed is for ever", "streaming into a sealed volume after kill -9")
	spec := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: sealed, Path: "/v"}))
	c.WantReason(c.W.CreateContainer(ctx, spec, nil), sdk.FailedPrecondition, sdk.ReasonSealed, "sealed is for ever", "mounting a sealed volume writable after kill -9")
	c.WantTree(c.Tree(ctx, sealed, ""), []Entry{File("a", "sealed")}, 0, "the sealed volume")
	c.Put(ctx, open, File("b", "more"))
	c.WantTree(c.Tree(ctx, open, ""), []Entry{File("a", "open"), File("b", "more")}, 0, "the open volume")
	c.OK(c.W.SealVolume(ctx, open), "sealing after kill -9")
	c.WantTree(c.Tree(ctx, c.Clone(ctx, sealed), ""), []Entry{File("a", "sealed")}, 0, "a clone made after kill -9")
}

func runKillAcks(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Print("0123456789", ""))
	c.AwaitExited(ctx, id, p)
	acks := make(chan sdk.Position)
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := c.W.FollowProcess(followCtx, id, p, 0, sdk.Follow{Acks: acks, Exit: func(sdk.Exit) error {
		c.Go(func(context.Context) {
			defer cancel()
			for range 2 { // once the second is taken, the first has had its effect
				select {
				case acks <- 4:
				case <-followCtx.Done():
				}
			}
		})
		return nil
	}})
	if !isCanceled(err) {
		c.Errorf("a follower whose last position is not acknowledged goes on", "following: got %s", describe(err))
	}
	if !c.crashed(ctx, o, before) {
		return
	}
	c.WantOutput(c.FollowUnacked(ctx, id, p, 4), "456789", "", "from what was acknowledged before kill -9")
	c.WantOutput(c.FollowUnacked(ctx, id, p, 7), "789", "", "from further on")
}

func runKillStdin(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	id := c.Container(ctx)
	p := c.Start(ctx, id, c.Commands.Cat(), WithStdin)
	data := pattern(200_000)
	var none int64
	broken := newTakenReader(ctx)
	in := io.MultiReader(strings.NewReader(data[:70_000]), broken)
	err := c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{Stdin: in, Acks: acknowledge(0), Taken: broken.after(&none)})
	if err != (callerError{}) {
		c.Fatalf("errors of the caller's own reader come back unchanged", "following: got %s", describe(err))
	}
	if !c.crashed(ctx, o, before) {
		return
	}
	j := c.resumeStdin(ctx, id, p, data)
	c.WantOutput(j, data, "", "cat of a stdin that goes on after kill -9")
	c.WantExit(j, 0, "cat of a stdin that goes on after kill -9")
}

func runKillSignal(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	id := c.Container(ctx)
	trapped, plain := c.Started(ctx, id, c.Commands.Trap(sdk.TERM, 6)), c.Started(ctx, id, c.Commands.Sleep())
	if !c.crashed(ctx, o, before) {
		return
	}
	c.OK(c.W.SignalProcess(ctx, id, trapped, sdk.TERM), "sending TERM after kill -9")
	c.WantOutput(c.Follow(ctx, id, trapped), "ready\ncaught\n", "", "a process that handles TERM")
	if i, _ := c.Process(ctx, id, plain); i.State != sdk.ProcessRunning {
		c.Errorf("a signal reaches its own process", "the other process is %s with %s", i.State, exitText(i.Exit))
	}
	c.OK(c.W.SignalProcess(ctx, id, plain, sdk.KILL), "sending KILL after kill -9")
	if e := c.Follow(ctx, id, plain).Exit; e.Code != 137 || e.Signal != sdk.KILL {
		c.Errorf("KILL always kills", "after kill -9 of the plugin and KILL: got %s, want code 137", exitText(e))
	}
}

func runKillClones(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	parent := c.Sealed(ctx, someTree()...)
	clone := c.Clone(ctx, parent)
	c.Put(ctx, clone, File("hello", "changed"))
	c.OK(c.W.SealVolume(ctx, clone), "sealing the clone")
	grandchild := c.Clone(ctx, clone)
	c.Put(ctx, grandchild, File("new", "of the grandchild"))
	if !c.crashed(ctx, o, before) {
		return
	}
	c.WantTree(c.Tree(ctx, parent, ""), someTree(), c.treeTimes(), "the parent")
	if f := find(c.Tree(ctx, clone, ""), "hello"); f.Data != "changed" {
		c.Errorf("a clone keeps its own writes", "the clone's file is %q, want %q", f.Data, "changed")
	}
	tree := c.Tree(ctx, grandchild, "")
	if find(tree, "hello").Data != "changed" || find(tree, "new").Data != "of the grandchild" || find(tree, "bin/tool").Mode != 0o4755 {
		c.Errorf("a clone keeps its own writes, and has its parent's content", "the grandchild's tree is %v", tree)
	}
	for id, want := range map[sdk.VolumeID]sdk.VolumeID{parent: "", clone: parent, grandchild: clone} {
		i, ok := c.ListVolume(ctx, id)
		if !ok || i.Parent != want || i.Labels["slipway.conformance.case"] != c.kase.ID {
			c.Errorf("what was made is there after a restart", "volume %q: listed %v, parent %q, labels %v; want parent %q", id, ok, i.Parent, i.Labels, want)
		}
	}
}

func runKillTokens(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	v := c.Volume(ctx)
	id := c.Container(ctx, c.Mounts(sdk.Mount{Volume: v, Path: "/v"}))
	spec := c.Spec(c.Commands.Append("/v/runs", "run\n"))
	c.OK(c.W.StartProcess(ctx, id, spec), "starting")
	c.Follow(ctx, id, spec.ID)
	for range 2 {
		if !c.crashed(ctx, o, before) {
			return
		}
		for range 3 {
			c.OK(c.W.StartProcess(ctx, id, spec), "starting again with the same id and token after kill -9")
		}
		other := spec
		other.Token = sdk.NewToken()
		c.WantClass(c.W.StartProcess(ctx, id, other), sdk.AlreadyExists, "tokens outlive the plugin", "starting with another token after kill -9")
	}
	c.WantExit(c.Exec(ctx, id, c.Commands.Exit(0)), 0, "another process")
	if runs := find(c.Tree(ctx, v, ""), "runs"); runs.Data != "run\n" {
		c.Errorf("a start with an id and token that ran never runs again", "the file that each run appends a line to is %q, want %q", runs.Data, "run\n")
	}
}

// underKill makes a call, kills the plugin at a random moment of the time that such a call takes, and waits for the call's end.
func (c *C) underKill(ctx context.Context, o *Own, before sdk.Status, takes time.Duration, call func(context.Context) error) (kept bool) {
	ended := make(chan error, 1)
	c.Go(func(ctx context.Context) { ended <- call(ctx) })
	moment := time.NewTimer(time.Duration(c.Rand.Int64N(int64(takes) + 1)))
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-ctx.Done():
	}
	kept = c.crashed(ctx, o, before)
	c.AwaitError(ctx, ended, "the end of a call under kill -9") // which was in time, or cut
	return kept
}

func runKillCreate(ctx context.Context, c *C) {
	o, before := c.ownStatus(ctx)
	parent := c.Sealed(ctx, someTree()...)
	var takes time.Duration
	for round := range 1 + c.Times(10) { // in the first one nothing is killed
		volume := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.Labels(), Clone: parent}
		container := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: parent, Path: "/v", ReadOnly: true}))
		create := func(ctx context.Context) error {
			return cmp.Or(c.W.CreateVolume(ctx, volume), c.W.CreateContainer(ctx, container, nil))
		}
		if round > 0 && !c.underKill(ctx, o, before, takes, create) {
			return
		}
		began := time.Now()
		c.OK(create(ctx), "creating a volume and a container, once more after kill -9")
		if round == 0 {
			takes = time.Since(began)
		}
		c.WantTree(c.Tree(ctx, volume.ID, ""), someTree(), c.treeTimes(), "the volume")
		c.WantOutput(c.Exec(ctx, container.ID, c.Commands.CatFile("/v/hello")), "hello, world\n", "", "the container")
		c.OK(c.W.DestroyContainer(ctx, container.ID), "destroying the container")
	}
}
