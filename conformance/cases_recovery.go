package conformance

import (
	"context"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// recoveryCases kill the plugin. Each has an instance of its own. Where the worker is volatile, or its incarnation is another one
// afterwards, all must be gone and said to be so; else all must be as it was.
func recoveryCases() []Case {
	crash := []Requirement{EnvCrash}
	return []Case{
		{
			ID: "R01-kill-idle", Title: "after kill -9 of the plugin its volumes and containers are as they were, or gone under a new incarnation",
			Promises: []string{"4b"}, Level: Must, Profile: Recovery, Run: runKillIdle, Env: crash, Timeout: time.Minute,
			Doc: "A plugin may keep nothing in its own process that a host relies on.",
		},
		{
			ID: "R02-kill-running", Title: "a process outlives kill -9 of the plugin with all its output, its stdin and its exit, or is gone and never exit 0",
			Promises: []string{"3d"}, Level: Must, Profile: Recovery, Run: runKillRunning, Env: crash, Timeout: time.Minute,
			Doc: "Containers are not the plugin's children. What was started runs once, whatever happens to the plugin; that it is lost is for the host to say.",
		},
		{
			ID: "R03-kill-under-call", Title: "a follower under kill -9 of the plugin ends with Unavailable, and never with an exit",
			Promises: []string{"3j"}, Level: Must, Profile: Recovery, Run: runKillUnderCall, Env: crash, Timeout: time.Minute,
			Doc: "A host that hears an exit then believes it; one that hears nothing waits for ever.",
		},
	}
}

// forgotten tells whether the containers and volumes of before are gone by the contract.
func (o *Own) forgotten(ctx context.Context, before sdk.Status) bool {
	after, err := o.W.Status(ctx)
	o.c.OK(err, "asking for the status after kill -9")
	changed := func(before, after string) bool { return before != "" && after != "" && before != after } // empty is unknown now, never a change
	volumes := changed(before.VolumeIncarnation, after.VolumeIncarnation)
	containers := changed(before.ContainerIncarnation, after.ContainerIncarnation)
	if before.Has(sdk.FeatureVolatile) && (!volumes || !containers) {
		o.c.Errorf("a host waits a long while for what is missing under the same incarnation",
			"the worker is volatile and its incarnations stayed %q and %q over kill -9", after.ContainerIncarnation, after.VolumeIncarnation)
	}
	if volumes != containers {
		o.c.NotObservable("one of the two stores was lost and the other kept")
	}
	return volumes
}

func runKillIdle(ctx context.Context, c *C) {
	o := c.Own(ctx)
	before, err := o.W.Status(ctx)
	c.OK(err, "asking for the status")
	c.W = o.W
	v := sdk.VolumeSpec{ID: c.VolumeID(), Token: sdk.NewToken(), Labels: c.boundLabels()}
	c.OK(c.W.CreateVolume(ctx, v), "creating a volume")
	c.Put(ctx, v.ID, someTree()...)
	c.OK(c.W.SealVolume(ctx, v.ID), "sealing")
	k := c.ContainerSpec(c.Mounts(sdk.Mount{Volume: v.ID, Path: "/v", ReadOnly: true}))
	c.OK(c.W.CreateContainer(ctx, k, nil), "creating a container")
	done := c.Exec(ctx, k.ID, c.Commands.Exit(11))
	c.WantExit(done, 11, "before kill -9")

	o.Crash(ctx)
	if o.forgotten(ctx, before) {
		c.wantNoVolume(ctx, v.ID)
		c.wantNoContainer(ctx, k.ID)
		return
	}
	i, ok := c.ListVolume(ctx, v.ID)
	if !ok || i.Token != v.Token || i.State != sdk.VolumeSealed || len(i.Labels) != len(v.Labels) {
		c.Fatalf("what was made is there after a restart", "volume: listed %v, token %q, %s, %d labels; want %q, sealed, %d", ok, i.Token, i.State, len(i.Labels), v.Token, len(v.Labels))
	}
	c.WantTree(c.Tree(ctx, v.ID, ""), someTree(), c.treeTimes(), "the volume after kill -9")
	ki, ok := c.ListContainer(ctx, k.ID)
	if !ok || ki.Token != k.Token || ki.State != sdk.ContainerReady {
		c.Fatalf("what was made is there after a restart", "container: listed %v, token %q, %s; want %q, ready", ok, ki.Token, ki.State, k.Token)
	}
	other := k
	other.Token = sdk.NewToken()
	c.OK(c.W.CreateContainer(ctx, k, nil), "creating again with the same token")
	c.WantClass(c.W.CreateContainer(ctx, other, nil), sdk.AlreadyExists, "tokens outlive the plugin", "creating again with another token")
	c.WantOutput(c.Exec(ctx, k.ID, c.Commands.CatFile("/v/hello")), "hello, world\n", "", "a process after kill -9")
}

func runKillRunning(ctx context.Context, c *C) {
	o := c.Own(ctx)
	before, err := o.W.Status(ctx)
	c.OK(err, "asking for the status")
	c.W = o.W
	k := c.ContainerSpec()
	c.OK(c.W.CreateContainer(ctx, k, nil), "creating a container")
	spec := c.Spec(c.Commands.Gate("before\n", "after\n", 12), WithStdin)
	c.OK(c.W.StartProcess(ctx, k.ID, spec), "starting")
	c.AwaitOutput(ctx, k.ID, spec.ID, "before\n")

	o.Crash(ctx)
	if o.forgotten(ctx, before) {
		var j Journal
		err := c.W.FollowProcess(ctx, k.ID, spec.ID, 0, j.Into(sdk.Follow{}))
		c.WantNotFound(err, sdk.KindContainer, "what is gone with its container is lost: NotFound of the process would mean that it never ran", "following a process whose container is gone")
		if j.Exit != nil {
			c.Errorf("what nobody knows is never an exit", "a process that is gone has an exit: %s", exitText(j.Exit))
		}
		return
	}
	c.OK(c.W.StartProcess(ctx, k.ID, spec), "starting again with the same id and token")
	i, ok := c.Process(ctx, k.ID, spec.ID)
	if !ok || i.State != sdk.ProcessRunning || i.Token != spec.Token {
		c.Fatalf("a process outlives its plugin", "listed %v, %s, token %q; want running, %q", ok, i.State, i.Token, spec.Token)
	}
	j := c.FollowStdin(ctx, k.ID, spec.ID, strings.NewReader("go\n"))
	c.WantOutput(j, "before\nafter\n", "", "a process over kill -9 of the plugin")
	c.WantExit(j, 12, "a process over kill -9 of the plugin")
}

func runKillUnderCall(ctx context.Context, c *C) {
	o := c.Own(ctx)
	c.W = o.W
	id := c.Container(ctx)
	p := c.Started(ctx, id, c.Commands.Sleep())
	ended := make(chan error, 1)
	opened := make(chan struct{})
	c.Go(func(ctx context.Context) {
		ended <- c.W.FollowProcess(ctx, id, p, 0, sdk.Follow{
			Acks:   acknowledge(0),
			Opened: func(sdk.Opened) error { close(opened); return nil },
			Exit: func(e sdk.Exit) error {
				c.Errorf("what nobody knows is never an exit", "the follower got %s", exitText(&e))
				return nil
			},
		})
	})
	c.Await(ctx, opened, "the follower's Opened")
	o.Crash(ctx)
	err := c.AwaitError(ctx, ended, "the follower's end")
	c.WantClass(err, sdk.Unavailable, "the host follows again once the plugin is back", "a follower under kill -9")
}
