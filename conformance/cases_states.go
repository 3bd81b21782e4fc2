package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// stateCases hold calls on containers to the table of answers.
func stateCases() []Case {
	return []Case{
		{
			ID: "C37-container-states", Title: "calls on a container that is not there, half made or ready are answered as the table of containers says",
			Promises: []string{"3g", "3f"}, Level: Must, Profile: Core, Run: runContainerStates,
			Doc: "Catches a half-made container of which calls are NotFound although it is listed, or of a process that it can never have had: a host would take what is being made for lost.",
		},
		{
			ID: "C38-container-ends", Title: "a container that ends by itself takes nothing any more, what its record tells can be followed, and nothing in it has ended well",
			Promises: []string{"3h", "3i"}, Level: Must, Profile: Linux, Run: runContainerEnds, Env: []Requirement{EnvProbeLinux, EnvLocal},
			Doc: "As when its machine restarts, or runs out of memory. Its first process is killed from outside, where containers have processes of their own and this machine shows them. Catches a process that is listed as running for ever, or as a success, " +
				"and a start in a container where nothing can run.",
		},
	}
}

func runContainerStates(ctx context.Context, c *C) {
	c.wantAnswers(ctx, c.ContainerSpec(), isMissing)

	spec := c.ContainerSpec()
	c.OK(c.W.CreateContainer(ctx, spec, nil), "creating a container")
	c.wantAnswers(ctx, spec, isReady)

	spec = c.ContainerSpec()
	spec.Mounts = append(spec.Mounts, sdk.Mount{Volume: c.VolumeID(), Path: "/missing"})
	c.WantNotFound(c.W.CreateContainer(ctx, spec, nil), sdk.KindVolume, "a host must learn what is lost", "mounting a volume that is not there")
	switch i, listed := c.ListContainer(ctx, spec.ID); {
	case !listed:
		c.wantAnswers(ctx, spec, isMissing)
	case i.State != sdk.ContainerCreating:
		c.Errorf("what is half made takes no process, and is not gone", "a container that could not be made is listed as %s, want creating or nothing", i.State)
	default:
		c.wantAnswers(ctx, spec, isHalfMade)
	}
}

// wantAnswers makes each call of the table on a container in that state, but for those that would change it, and destroys it in the end.
func (c *C) wantAnswers(ctx context.Context, spec sdk.ContainerSpec, state containerState) {
	another := spec
	another.Token = sdk.NewToken()
	id, process := spec.ID, c.ProcessID()
	calls := map[string]func() error{
		"StartProcess":     func() error { return c.W.StartProcess(ctx, id, c.Spec(c.Commands.Exit(0))) },
		"ListProcesses":    func() error { _, err := c.W.ListProcesses(ctx, id); return err },
		"FollowProcess":    func() error { return c.W.FollowProcess(ctx, id, process, 0, sdk.Follow{}) },
		"SignalProcess":    func() error { return c.W.SignalProcess(ctx, id, process, sdk.TERM) },
		"DestroyContainer": func() error { return c.W.DestroyContainer(ctx, id) },
	}
	if state != isMissing { // there it would make one
		calls["CreateContainer, another"] = func() error { return c.W.CreateContainer(ctx, another, nil) }
	}
	if state != isMissing && state != isHalfMade {
		calls["CreateContainer, its token"] = func() error { return c.W.CreateContainer(ctx, spec, nil) }
	}
	if r, ok := c.Optional().(sdk.Resizer); ok && c.Status.Has(sdk.FeatureTTYResize) {
		calls["ResizeProcess"] = func() error { return r.ResizeProcess(ctx, id, process, sdk.TTY{}) }
	}
	for _, row := range containerAnswers() {
		if call := calls[row.call]; call != nil {
			c.wantAnswer(call(), row.call, state, row.in[state])
		}
	}
}

func (c *C) wantAnswer(err error, call string, state containerState, want answer) {
	in := containerStates()[state]
	if want.text == recordElseDead { // which has no such process
		want = answer{text: string(sdk.ReasonDead), class: sdk.FailedPrecondition, reason: sdk.ReasonDead}
	}
	if want.text == "its process" && call != "StartProcess" { // which was never started
		c.WantNotFound(err, sdk.KindProcess, "NotFound of a process means that it was never started, and may be", "%s on a container that is %s", call, in)
		return
	}
	switch {
	case want.class == "":
		c.OK(err, "%s on a container that is %s", call, in)
	case want.class == sdk.NotFound:
		c.WantNotFound(err, sdk.KindContainer, "NotFound of a container means that all in it is lost", "%s on a container that is %s", call, in)
	case !errors.Is(err, want.class) || !errors.Is(err, want.reason) && want.reason != "":
		c.Errorf("a host decides by the class and the reason", "%s on a container that is %s: got %s, want %s", call, in, describe(err), want.text)
	}
}

func runContainerEnds(ctx context.Context, c *C) {
	m := newMark()
	spec := c.ContainerSpec()
	c.OK(c.W.CreateContainer(ctx, spec, nil), "creating a container")
	done := c.Spec(c.Commands.Print("said", "complained"))
	c.OK(c.W.StartProcess(ctx, spec.ID, done), "starting")
	c.AwaitExited(ctx, spec.ID, done.ID)
	was, _ := c.Process(ctx, spec.ID, done.ID)
	running := c.marked(ctx, spec.ID, m)
	c.endContainer(ctx, spec.ID, m)

	switch i, listed := c.ListContainer(ctx, spec.ID); {
	case !listed:
		c.wantAnswers(ctx, spec, isMissing)
	case i.State != sdk.ContainerGone:
		c.Errorf("a list tells what is", "a container whose first process was killed is listed as %s, want gone or nothing", i.State)
	default:
		infos, err := c.W.ListProcesses(ctx, spec.ID)
		if errors.Is(err, sdk.ReasonRecordLost) {
			c.wantAnswers(ctx, spec, isLost)
			return
		}
		c.OK(err, "listing the processes of a container that is gone, and whose record can be read")
		c.wantRecord(ctx, spec.ID, infos, done, *was.Exit, running)
		c.wantAnswers(ctx, spec, isGone)
	}
}

// endContainer kills the first process of a container, in which a process has the mark, and waits until the list tells of it.
func (c *C) endContainer(ctx context.Context, id sdk.ContainerID, m mark) {
	inside := m.processes()
	if len(inside) == 0 {
		c.NotObservable("the processes of its containers are not seen on this machine")
	}
	first, ok := firstBeside(inside[0])
	if !ok {
		c.NotObservable("its containers have no first process of their own")
	}
	if err := kill(first, func(pid int) bool { again, ok := firstBeside(inside[0]); return ok && again == pid }); err != nil {
		c.EnvMissing("the first process of a container cannot be killed from here: " + err.Error())
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if i, ok := c.ListContainer(ctx, id); !ok || i.State != sdk.ContainerReady {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Fatalf("a list tells what is", "long after its first process was killed the container is listed as ready")
		}
	}
}

// wantRecord holds what a gone container's record tells of two processes, one that had ended and one that had not, against what can be true.
func (c *C) wantRecord(ctx context.Context, id sdk.ContainerID, infos []sdk.ProcessInfo, done sdk.ProcessSpec, exit sdk.Exit, running sdk.ProcessID) {
	const why = "what the record tells is all that a host has, and must be true"
	for _, i := range infos {
		switch {
		case i.ID == done.ID && (i.State != sdk.ProcessExited || i.Exit == nil || !sameExit(*i.Exit, exit)):
			c.Errorf(why, "a process that had ended is listed as %s with %s, want exited with %s", i.State, exitText(i.Exit), exitText(&exit))
		case i.ID == running && (i.State == sdk.ProcessRunning || i.Exit != nil && i.Exit.Code == 0):
			c.Errorf(why, "a process that ended with its container is listed as %s with %s, want abandoned, or an exit that is no success", i.State, exitText(i.Exit))
		}
	}
	if len(infos) != 2 {
		c.Errorf(why, "%d processes are listed, want 2", len(infos))
	}
	j := c.Follow(ctx, id, done.ID)
	c.WantOutput(j, "said", "complained", "a process that had ended before its container")
	if !sameExit(*j.Exit, exit) {
		c.Errorf(why, "following a process that had ended before its container: got %s, want %s", exitText(j.Exit), exitText(&exit))
	}
	var cut Journal
	err := c.W.FollowProcess(ctx, id, running, 0, cut.Into(sdk.Follow{}))
	if cut.Exit == nil {
		c.WantReason(err, sdk.FailedPrecondition, sdk.ReasonAbandoned, "of what has no exit and will have none a host must not wait for one", "following a process that ended with its container")
	} else if cut.Exit.Code == 0 {
		c.Errorf("what nobody knows is never a success", "following a process that ended with its container: got %s", exitText(cut.Exit))
	}
	c.WantOutput(cut, "ready\n", "", "a process that ended with its container")
	other := done
	other.Token = sdk.NewToken()
	const told = "nothing starts in a container that is gone; of what its record has the token may tell, too"
	if err := c.W.StartProcess(ctx, id, done); err != nil && !errors.Is(err, sdk.ReasonDead) {
		c.Errorf(told, "starting again what had ended before its container: got %s, want success or %s", describe(err), sdk.ReasonDead)
	}
	if err := c.W.StartProcess(ctx, id, other); !errors.Is(err, sdk.AlreadyExists) && !errors.Is(err, sdk.ReasonDead) {
		c.Errorf(told, "the same with another token: got %s, want %s or %s", describe(err), sdk.AlreadyExists, sdk.ReasonDead)
	}
}
