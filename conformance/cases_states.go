package conformance

import (
	"context"
	"errors"

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
	if state == isReady {
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
