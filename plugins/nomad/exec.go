package nomad

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// remember keeps where a container is.
func (n *node) remember(id sdk.ContainerID, a *api.Allocation) *placed {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.known[id]
	if p == nil {
		p = &placed{alloc: a}
		n.known[id] = p
	}
	return p
}

// where gives the allocation to run commands in.
func (n *node) where(ctx context.Context, id sdk.ContainerID) (*placed, error) {
	n.mu.Lock()
	p, ending := cmp.Or(n.known[id], n.eager[id]), n.ending[id]
	n.mu.Unlock()
	if ending {
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if p != nil {
		return p, nil
	}
	c, err := n.lookup(ctx, id)
	switch {
	case sdk.ClassOf(err) == sdk.AlreadyExists: // another's
		return nil, sdk.NewNotFound(sdk.KindContainer, string(id))
	case err != nil:
		return nil, err
	}
	stub, again, err := n.allocation(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case again:
		n.stopAgain(ctx, id)
	case stub == nil && c.stopped:
		return nil, lost(id, "its job is stopped")
	case stub == nil:
		return nil, creating(id)
	}
	asking, cancel := n.cluster.in(ctx)
	defer cancel()
	a, _, err := n.cluster.client.Allocations().Info(stub.ID, n.cluster.query(asking))
	switch {
	case err == nil && again:
		return nil, lost(id, placedAgain+"; "+ended(a))
	case again:
		return nil, lost(id, placedAgain)
	case missing(err):
		return nil, lost(id, "Nomad has cleared it away")
	case err != nil:
		return nil, n.cluster.fail(ctx, "looking for container "+string(id), err)
	case forgotten(a.TaskStates, taskName):
		if !c.stopped {
			n.stopAgain(ctx, id)
		}
		return nil, lost(id, forgot+"; "+ended(a))
	case c.stopped:
		return nil, lost(id, "its job is stopped; "+ended(a))
	case over(stub):
		return nil, lost(id, ended(a))
	case a.PreviousAllocation != "":
		n.stopAgain(ctx, id)
		return nil, lost(id, placedAgain)
	case stub.ClientStatus == api.AllocClientStatusUnknown:
		return nil, n.cutOff(id)
	case stub.ClientStatus == api.AllocClientStatusPending: // its keeper may have answered all the same, to a plugin that is no more
		return &placed{alloc: a}, nil
	}
	return n.remember(id, a), nil
}

// lost tells why nothing can be read of a container's processes any more.
func lost(id sdk.ContainerID, why string) error {
	return sdk.NewFailedPrecondition(sdk.ReasonRecordLost, sdk.KindContainer, string(id),
		"container %q: its allocation has ended, and nothing can be read of its processes: %s; destroy it", id, why)
}

// ended tells in Nomad's words how an allocation ended.
func ended(a *api.Allocation) string { return "it is " + a.ClientStatus + ": " + events(a) }

// agent is where the node's own agent is.
func (n *node) agent() agent {
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	return n.pool.traits[n.id].agent
}

// exec is all that the shim's driver asks of a runtime.
func (n *node) exec(ctx context.Context, id sdk.ContainerID, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	p, err := n.where(ctx, id)
	if err != nil {
		return err
	}
	by, code, err := n.cluster.exec(ctx, n.agent(), p.alloc, taskName, argv, stdin, stdout, stderr)
	if by != unreached {
		n.detour.Store(by == byTheBlock)
	}
	if err == nil {
		err = n.notRun(id, code)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	// Nomad's errors do not tell these apart.
	ask, cancel := n.cluster.in(ctx)
	defer cancel()
	c, lookErr := n.lookup(ask, id)
	n.mu.Lock()
	ending, answered := n.ending[id], n.known[id] != nil
	n.mu.Unlock()
	if ending || sdk.IsNotFound(lookErr, sdk.KindContainer) {
		return sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	now, _, infoErr := n.cluster.client.Allocations().Info(p.alloc.ID, n.cluster.query(ask))
	switch {
	case infoErr == nil && forgotten(now.TaskStates, taskName):
		if lookErr == nil && !c.stopped {
			n.stopAgain(ask, id)
		}
		return lost(id, forgot+"; "+ended(now))
	case infoErr == nil && now.ClientTerminalStatus():
		return lost(id, ended(now))
	case infoErr == nil && now.ClientStatus == api.AllocClientStatusPending && !answered && by != unreached: // not what is whole and cut off
		return creating(id)
	case lookErr == nil && c.stopped:
		return lost(id, "its job is stopped")
	case missing(infoErr):
		return lost(id, "Nomad has cleared it away")
	}
	// What was given up may be called running or pending for a while yet: its node tells of it late, or once more when it is back.
	if _, again, listErr := n.allocation(ask, id); listErr == nil && again {
		n.stopAgain(ctx, id)
		return lost(id, placedAgain)
	}
	return err
}

// notRun is the error of a command that docker has not run, if it seems so by its status: its own words are then where those of the command would be. So it is
// while a container ends, before Nomad tells of that. One that lives on and takes no command for long has lost its program: that is not for us to hide.
func (n *node) notRun(id sdk.ContainerID, status int) error {
	const cannotRun, noProgram, patience = 126, 127, time.Minute
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pool.c.Driver != "docker" || status != cannotRun && status != noProgram {
		delete(n.idle, id)
		return nil
	}
	since, again := n.idle[id]
	if !again {
		since = time.Now()
		n.idle[id] = since
	}
	if time.Since(since) > patience {
		return nil
	}
	return sdk.NewUnavailable(nil, "container %q: docker runs no command in it now, and gives it the status %d", id, status)
}
