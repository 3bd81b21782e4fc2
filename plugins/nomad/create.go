package nomad

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

var errSlowStart = errors.New("start_timeout is over")

func slowStart(ctx context.Context, id sdk.ContainerID) error {
	if errors.Is(context.Cause(ctx), errSlowStart) {
		return sdk.NewUnavailable(errSlowStart, "container %q: it was not ready within start_timeout", id)
	}
	return ctx.Err()
}

// isNotYet tells of a keeper that has not come to be.
func isNotYet(err error) bool {
	return errors.Is(err, sdk.ReasonRecordLost) || errors.Is(err, sdk.ReasonCreating)
}

// CreateContainer makes a container whole, or nothing is left of it. A job of that id and token that is there already is waited for: the shim is its
// command, so it was started once, whoever registered it.
func (n *node) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if progress == nil {
		progress = func(sdk.Progress) {}
	}
	if err := n.supported(spec, n.sure()); err != nil {
		return err
	}
	return n.create(ctx, spec, progress)
}

func (n *node) create(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	unlock, err := n.locks.Lock(ctx, string(spec.ID))
	if err != nil {
		return err
	}
	defer unlock()
	c, err := n.lookup(ctx, spec.ID)
	switch {
	case sdk.IsNotFound(err, sdk.KindContainer):
		if err := n.cluster.pace.wait(ctx); err != nil {
			return err
		}
		if err = n.register(ctx, spec, progress); errors.Is(err, errDeaf) { // nothing was ever started in it, so another may take its place
			n.log.Warn("a new container takes no command; it is made once more", "container", spec.ID, "error", err)
			if err = n.remove(ctx, spec.ID, &spec); err == nil {
				err = n.register(ctx, spec, progress)
			}
		}
	case err != nil:
		return err
	default:
		err = n.adopt(ctx, c, spec.Token, progress)
		if errors.Is(err, sdk.Unavailable) || ctx.Err() != nil {
			return err // it may have been whole for long
		}
	}
	if err == nil || errors.Is(err, sdk.AlreadyExists) || errors.Is(err, sdk.ReasonDead) {
		return err
	}
	undo, cancel := undo(ctx)
	defer cancel()
	if undone := n.remove(undo, spec.ID, &spec); undone != nil {
		n.log.Error("a container is left half made", "container", spec.ID, "error", undone)
	}
	return err
}

// register makes the job and waits for the container.
func (n *node) register(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	k := n.cluster
	if where := n.condition(); where != api.NodeStatusReady {
		return sdk.NewExhausted("", "container %q: node %s takes no work: it is %s", spec.ID, short(n.id), where)
	}
	defer n.beginMaking(spec.ID)()
	h, err := n.hold(ctx, spec)
	if err != nil {
		return err
	}
	defer h.lease.Abandon()
	job, err := n.job(spec, h)
	if err != nil {
		return sdk.NewInternal(err, "container %q: %v", spec.ID, err)
	}
	asking, cancel := k.in(ctx)
	defer cancel()
	reply, _, err := k.client.Jobs().EnforceRegister(job, 0, k.write(asking)) // only if there is none
	if status(err) == http.StatusInternalServerError {
		if c, lookErr := n.lookup(ctx, spec.ID); lookErr == nil { // registered meanwhile, by a call whose answer was lost or by somebody else
			return n.adopt(ctx, c, spec.Token, progress)
		} else if errors.Is(lookErr, sdk.AlreadyExists) {
			return lookErr
		}
		return n.refused(ctx, spec.ID, job, err)
	}
	if err != nil {
		return k.fail(ctx, "registering container "+string(spec.ID), err)
	}
	stub, err := n.await(ctx, spec.ID, n.resources(spec.Limits), reply.EvalID, progress)
	if err != nil {
		return err
	}
	if stub == nil {
		err = n.resume(ctx, spec.ID, progress)
	} else {
		err = n.up(ctx, spec.ID, stub, progress)
	}
	if err != nil {
		return err
	}
	return h.lease.Release()
}

// adopt waits until a container whose job is there already is whole, if it is that of the token.
func (n *node) adopt(ctx context.Context, c container, token sdk.Token, progress func(sdk.Progress)) error {
	switch {
	case c.spec.Token != token:
		return sdk.NewAlreadyExists(sdk.KindContainer, string(c.spec.ID))
	case c.stopped:
		return dead(c.spec.ID)
	}
	if err := n.resume(ctx, c.spec.ID, progress); err != nil {
		return err
	}
	return n.stayQuiet(ctx, c.spec)
}

// resume waits for a container whose job is there already.
func (n *node) resume(ctx context.Context, id sdk.ContainerID, progress func(sdk.Progress)) error {
	k := n.cluster
	patience, stop := context.WithTimeout(ctx, time.Duration(n.pool.c.PlaceTimeout))
	defer stop()
	for index := uint64(0); ; {
		q, _, cancel := k.waiting(patience, index)
		stubs, meta, err := k.client.Jobs().Allocations(jobID(id), false, q)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case patience.Err() != nil:
			return sdk.NewExhausted("", "container %q: %s has not placed it on node %s within %v", id, k, short(n.id), time.Duration(n.pool.c.PlaceTimeout))
		case err != nil:
			return k.fail(ctx, "looking for container "+string(id), err)
		}
		index = meta.LastIndex
		switch s, again := first(stubs); {
		case s == nil:
		case again || over(s) || forgotten(s.TaskStates, taskName):
			return dead(id)
		case s.ClientStatus == api.AllocClientStatusUnknown:
			return n.cutOff(id)
		default:
			return n.up(ctx, id, s, progress)
		}
	}
}

// over tells that nothing of an allocation runs any more, or soon will not.
func over(s *api.AllocationListStub) bool {
	switch s.ClientStatus {
	case api.AllocClientStatusPending, api.AllocClientStatusRunning, api.AllocClientStatusUnknown:
		return s.DesiredStatus != api.AllocDesiredStatusRun
	}
	return true
}

func dead(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, string(id), "container %q is gone and takes no process; destroy it", id)
}

func creating(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindContainer, string(id), "container %q is half made; create it again or destroy it", id)
}
