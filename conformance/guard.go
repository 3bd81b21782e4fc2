package conformance

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// guard is the worker that a case sees: it tracks what is made, holds every error against rule 14, and blames panics on
// the worker.
type guard struct {
	c  *C
	on *slot
}

// enter is deferred by each method.
func (g guard) leave(method string, err *error) {
	v := recover()
	if v != nil {
		buf := make([]byte, 8<<10)
		g.c.violation("14a", "a panic in a plugin's method must never be anybody's problem but that call's",
			"%s panicked: %v\n%s", method, v, buf[:runtime.Stack(buf, false)])
		*err = &sdk.Error{Class: sdk.Internal, Reason: sdk.ReasonPanic, Message: method + " panicked"}
		return
	}
	e, ok := errors.AsType[*sdk.Error](*err)
	if !ok {
		return
	}
	const why = "a host decides by class, kind, reason and feature alone: one that is missing or unknown leaves it without an answer"
	switch {
	case !slices.Contains(classes(), e.Class):
		g.c.violation("14a", why, "%s: class %q is not one of the contract: %v", method, e.Class, e)
	case e.Class == sdk.NotFound && !slices.Contains(kinds(), e.Kind):
		g.c.violation("3e", why, "%s: not found, but of kind %q: %v", method, e.Kind, e)
	case e.Class == sdk.Unsupported && e.Feature == "":
		g.c.violation("14a", why, "%s: unsupported, but no feature is named: %v", method, e)
	case e.Class == sdk.FailedPrecondition && e.Reason == "" && method != "ResizeProcess":
		g.c.violation("14a", why, "%s: failed precondition without a reason: %v", method, e)
	}
}

func classes() []sdk.Class {
	return []sdk.Class{sdk.NotFound, sdk.AlreadyExists, sdk.Invalid, sdk.Unsupported, sdk.FailedPrecondition,
		sdk.Exhausted, sdk.Unavailable, sdk.Internal}
}

func kinds() []sdk.Kind {
	return []sdk.Kind{sdk.KindWorker, sdk.KindVolume, sdk.KindContainer, sdk.KindProcess, sdk.KindFile}
}

func (g guard) Status(ctx context.Context) (s sdk.Status, err error) {
	defer g.leave("Status", &err)
	return g.on.get().Status(ctx)
}

func (g guard) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) (err error) {
	g.c.tracker.add(creation{sdk.KindVolume, string(spec.ID), g.on})
	defer g.leave("CreateVolume", &err)
	return g.on.get().CreateVolume(ctx, spec)
}

func (g guard) SealVolume(ctx context.Context, id sdk.VolumeID) (err error) {
	defer g.leave("SealVolume", &err)
	return g.on.get().SealVolume(ctx, id)
}

func (g guard) ListVolumes(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) (err error) {
	defer g.leave("ListVolumes", &err)
	return g.on.get().ListVolumes(ctx, f, emit)
}

func (g guard) DestroyVolume(ctx context.Context, id sdk.VolumeID) (err error) {
	defer func() {
		if err == nil {
			g.c.tracker.remove(creation{sdk.KindVolume, string(id), g.on})
		}
	}()
	defer g.leave("DestroyVolume", &err)
	return g.on.get().DestroyVolume(ctx, id)
}

func (g guard) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) (err error) {
	defer g.leave("StreamIn", &err)
	return g.on.get().StreamIn(ctx, id, in, r)
}

func (g guard) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) (err error) {
	defer g.leave("StreamOut", &err)
	return g.on.get().StreamOut(ctx, id, out, w)
}

func (g guard) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) (err error) {
	g.c.tracker.add(creation{sdk.KindContainer, string(spec.ID), g.on})
	defer g.leave("CreateContainer", &err)
	return g.on.get().CreateContainer(ctx, spec, progress)
}

func (g guard) ListContainers(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) (err error) {
	defer g.leave("ListContainers", &err)
	return g.on.get().ListContainers(ctx, f, emit)
}

func (g guard) DestroyContainer(ctx context.Context, id sdk.ContainerID) (err error) {
	defer func() {
		if err == nil {
			g.c.tracker.remove(creation{sdk.KindContainer, string(id), g.on})
		}
	}()
	defer g.leave("DestroyContainer", &err)
	return g.on.get().DestroyContainer(ctx, id)
}

func (g guard) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) (err error) {
	defer g.leave("StartProcess", &err)
	return g.on.get().StartProcess(ctx, id, spec)
}

func (g guard) ListProcesses(ctx context.Context, id sdk.ContainerID) (ps []sdk.ProcessInfo, err error) {
	defer g.leave("ListProcesses", &err)
	return g.on.get().ListProcesses(ctx, id)
}

func (g guard) FollowProcess(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) (err error) {
	watch := &watch{c: g.c, next: from}
	defer watch.returned()
	defer g.leave("FollowProcess", &err)
	return g.on.get().FollowProcess(ctx, id, p, from, watch.wrap(f))
}

func (g guard) SignalProcess(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) (err error) {
	defer g.leave("SignalProcess", &err)
	return g.on.get().SignalProcess(ctx, id, p, s)
}

// Close is not the case's to do.
func (g guard) Close() error { return nil }

// Optional gives the worker itself, for the optional interfaces.
func (c *C) Optional() sdk.Worker { return c.main.get() }
