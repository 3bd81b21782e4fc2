package nomad

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// lookup gives one of ours on this node. A job of that name that is not, belongs to somebody else, which is AlreadyExists.
func (n *node) lookup(ctx context.Context, id sdk.ContainerID) (container, error) {
	k := n.cluster
	asking, cancel := k.in(ctx)
	defer cancel()
	job, _, err := k.client.Jobs().Info(jobID(id), k.query(asking))
	if missing(err) {
		return container{}, sdk.NewNotFound(sdk.KindContainer, string(id))
	}
	if err != nil {
		return container{}, k.fail(ctx, "looking for container "+string(id), err)
	}
	c, ours := read(job.Meta, job.Stop != nil && *job.Stop)
	mine := ours && c.spec.ID == id
	if mine && !n.owns(c) {
		if mine, err = n.inherits(ctx, c, make(map[string]bool)); err != nil {
			return container{}, err
		}
	}
	if !mine {
		return container{}, &sdk.Error{Class: sdk.AlreadyExists, Kind: sdk.KindContainer, ID: string(id),
			Message: fmt.Sprintf("container %q: %s has a job %q already that is not this worker's", id, k, jobID(id))}
	}
	return c, nil
}

// allocation gives the one of a container, and whether Nomad has placed its job again since; nil: there is none.
func (n *node) allocation(ctx context.Context, id sdk.ContainerID) (*api.AllocationListStub, bool, error) {
	k := n.cluster
	asking, cancel := k.in(ctx)
	defer cancel()
	stubs, _, err := k.client.Jobs().Allocations(jobID(id), false, k.query(asking))
	if err != nil && !missing(err) {
		return nil, false, k.fail(ctx, "looking for container "+string(id), err)
	}
	s, again := first(stubs)
	return s, again, nil
}

// ListContainers emits the jobs of ours on this node, with what became of their allocations.
func (n *node) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	k := n.cluster
	asking, cancel := k.in(ctx)
	defer cancel()
	remains := n.remains(ctx, filter)
	// Jobs before allocations: what has no allocation then may have one in a later list, and never the other way round.
	type found struct {
		container
		job *api.JobListStub
	}
	var all []found
	says := filter.Labels[sdk.LabelInstallation] != "" // who does not say whose he is has no heritage
	err := n.jobs(ctx, says, func(c container, job *api.JobListStub) {
		delete(remains, c.spec.ID)
		if c.block != n.pool.name && !says {
			return
		}
		if !isProbe(c.spec.ID) && filter.Match(string(c.spec.ID), c.spec.Labels) {
			all = append(all, found{c, job})
		}
	})
	if err != nil {
		return err
	}
	allocs, _, err := k.client.Nodes().Allocations(n.id, k.query(asking))
	if err != nil {
		return k.fail(ctx, "listing the allocations of node "+short(n.id), err)
	}
	of := make(map[string]*api.Allocation, len(allocs))
	again := make(map[string]bool)
	for _, a := range allocs {
		if a.Job == nil || a.Job.CreateIndex == nil {
			continue
		}
		key := fmt.Sprint(a.JobID, "/", *a.Job.CreateIndex) // a job that was made anew has nothing of the one before
		if before := of[key]; before != nil {
			again[key] = true
			if before.CreateIndex < a.CreateIndex {
				continue
			}
		}
		of[key] = a
	}
	for _, c := range all {
		info := sdk.ContainerInfo{ID: c.spec.ID, Token: c.spec.Token, Labels: c.spec.Labels, State: sdk.ContainerReady}
		key := fmt.Sprint(c.job.ID, "/", c.job.CreateIndex)
		switch a := of[key]; {
		case c.node != n.id:
			info.State, info.Reason = sdk.ContainerGone, "its node "+short(c.node)+" is not in the cluster any more"
		case a != nil && forgotten(a.TaskStates, taskName):
			info.State, info.Reason = sdk.ContainerGone, "its allocation "+short(a.ID)+" is gone: "+forgot+"; "+ended(a)
		case again[key] && (a.ClientTerminalStatus() || a.ServerTerminalStatus()):
			info.State, info.Reason = sdk.ContainerGone, "its allocation "+short(a.ID)+" is gone: "+placedAgain+"; "+ended(a)
		case again[key], a != nil && a.PreviousAllocation != "":
			info.State, info.Reason = sdk.ContainerGone, "its allocation is gone: "+placedAgain
		case a != nil && (a.ClientTerminalStatus() || a.ServerTerminalStatus()):
			info.State, info.Reason = sdk.ContainerGone, "its allocation "+short(a.ID)+" has ended: "+ended(a)
		case c.stopped:
			info.State, info.Reason = sdk.ContainerGone, "its job is stopped"
		case a == nil && c.job.Status == "dead":
			info.State, info.Reason = sdk.ContainerGone, "its allocation is gone from "+k.String()
		case a == nil:
			info.State = sdk.ContainerCreating
		case a.ClientStatus == api.AllocClientStatusPending:
			if info.State, err = n.pending(ctx, c.spec.ID, a); err != nil {
				return err
			}
		}
		if info.State == sdk.ContainerGone && !c.stopped && c.job.Status != "dead" {
			n.stopAgain(ctx, c.spec.ID)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(remains)) {
		if err := emit(remains[id]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// DestroyContainer stops the job and takes it away. What is not ours stays.
func (n *node) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	unlock, err := n.locks.Lock(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	n.mark(id, true)
	defer n.mark(id, false)
	return n.remove(ctx, id, nil)
}

func (n *node) mark(id sdk.ContainerID, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if on {
		n.ending[id] = true
	} else {
		delete(n.ending, id)
	}
}

// remove takes away all that there is of a container: first it is stopped, so that it is still listed while something of it may live. Its lock is held.
// asked is what was to be made; nil: not known.
func (n *node) remove(ctx context.Context, id sdk.ContainerID, asked *sdk.ContainerSpec) error {
	k := n.cluster
	c, err := n.lookup(ctx, id)
	switch {
	case sdk.IsNotFound(err, sdk.KindContainer):
		n.forget(id)
		if asked != nil && !mayOwn(*asked) {
			return nil
		}
		return n.dropLeft(ctx, id) // which there is before the job
	case sdk.ClassOf(err) == sdk.AlreadyExists:
		n.forget(id)
		return nil
	case err != nil:
		return err
	}
	stop := func(purge bool) error {
		asking, cancel := k.in(ctx)
		defer cancel()
		_, _, err := k.client.Jobs().Deregister(jobID(id), purge, k.write(asking))
		if missing(err) {
			return nil
		}
		return k.fail(ctx, "stopping container "+string(id), err)
	}
	if err := stop(false); err != nil {
		return err
	}
	if err := n.ended(ctx, id); err != nil {
		return err
	}
	n.forget(id)
	if mayOwn(c.spec) {
		if err := n.dropOwn(ctx, id); err != nil {
			return err
		}
	}
	return stop(true)
}

func (n *node) forget(id sdk.ContainerID) {
	n.mu.Lock()
	delete(n.known, id)
	delete(n.keeper, id)
	delete(n.idle, id)
	n.mu.Unlock()
	n.Forget(id)
}

// ended waits until nothing of a container runs. A node that is down has stopped nothing, but Nomad will when it is back: its job is then stopped.
func (n *node) ended(ctx context.Context, id sdk.ContainerID) error {
	k := n.cluster
	for index := uint64(0); ; {
		q, _, cancel := k.waiting(ctx, index)
		stubs, meta, err := k.client.Jobs().Allocations(jobID(id), true, q)
		cancel()
		if missing(err) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return k.fail(ctx, "waiting for the end of container "+string(id), err)
		}
		index = meta.LastIndex
		running := false
		for _, s := range stubs {
			switch s.ClientStatus {
			case api.AllocClientStatusPending, api.AllocClientStatusRunning:
				running = true
			case api.AllocClientStatusUnknown: // of a node that is down, or not in the cluster any more, Nomad never says more
				running = running || s.NodeID == n.id && n.condition() != api.NodeStatusDown
			}
		}
		if !running {
			return nil
		}
		if where := n.condition(); where == api.NodeStatusDown || where == api.NodeStatusDisconnected {
			return sdk.NewUnavailable(nil, "container %q: node %s is %s; what runs there ends when it is back", id, short(n.id), where)
		}
	}
}
