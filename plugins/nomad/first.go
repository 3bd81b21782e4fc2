package nomad

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
)

// lostAfter is how long a node may be out of Nomad's sight before its containers are lost. A host waits no longer than that for a worker.
const lostAfter = time.Hour

// disconnect keeps a container through a time without its node. Without it Nomad gives an allocation up as soon as its node is down.
func disconnect() *api.DisconnectStrategy {
	return &api.DisconnectStrategy{LostAfter: new(lostAfter), Replace: new(false), Reconcile: new(api.ReconcileOptionKeepOriginal)}
}

// first gives the allocation that is the container, among those of its job. Nomad places a lost batch allocation again once its node is back, whatever the
// job's policies say of rescheduling. What is placed again has a keeper that knows nothing of what ran, so that it is never the container: the oldest is,
// for ever. Nomad does not forget it as long as the job is not over.
func first(stubs []*api.AllocationListStub) (s *api.AllocationListStub, again bool) {
	if len(stubs) == 0 {
		return nil, false
	}
	return slices.MinFunc(stubs, func(a, b *api.AllocationListStub) int { return cmp.Compare(a.CreateIndex, b.CreateIndex) }), len(stubs) > 1
}

const placedAgain = "Nomad lost it and has placed its job again"

// forgotten tells of an allocation whose node has received its task a second time: its agent was started without its records, as on a machine that has lost
// its disk. Nomad (1.9.4) takes over from its servers that the task runs, waits before it starts it until it does not, and so for ever calls running
// what does not run. Should it be started by others than that Nomad, its keeper is another one. Agents that have their records receive nothing again.
func forgotten(states map[string]*api.TaskState, task string) bool {
	s := states[task]
	return s != nil && len(s.Events) > 1 && slices.ContainsFunc(s.Events[1:], func(e *api.TaskEvent) bool { return e.Type == api.TaskReceived })
}

const forgot = "the agent of its node was started without the records that it had in its data_dir, and what ran in it has ended"

// stopAgain ends what was placed again or is forgotten, or would be, which is of use to nobody. The job stays, so that the container is listed as gone until it is destroyed.
func (n *node) stopAgain(ctx context.Context, id sdk.ContainerID) {
	asking, cancel := n.cluster.in(ctx)
	defer cancel()
	if _, _, err := n.cluster.client.Jobs().Deregister(jobID(id), false, n.cluster.write(asking)); err != nil && !missing(err) {
		n.log.Warn("the job of a lost container cannot be stopped", "container", id, "error", err)
	}
}

// recognise refuses a keeper that is not the one that answered first in its container. Where an agent has lost its records before it had told its servers that
// the task runs, Nomad begins that anew without a trace: nobody but who has met the first keeper can tell, and what was started there must not start again.
func (n *node) recognise(ctx context.Context, id sdk.ContainerID, info shim.Info) error {
	if info.Keeper == "" {
		return nil
	}
	n.mu.Lock()
	first := n.keeper[id]
	if first == "" {
		n.keeper[id] = info.Keeper
	}
	n.mu.Unlock()
	if first == "" || first == info.Keeper {
		return nil
	}
	n.stopAgain(ctx, id)
	return lost(id, "its keeper is another one than before, without the records of what ran")
}

// cutOff is the error of a container whose node Nomad has lost sight of: it may live.
func (n *node) cutOff(id sdk.ContainerID) error {
	return sdk.NewUnavailable(nil, "container %q: Nomad has lost sight of node %s; what runs there may go on, and is looked for when it is back", id, short(n.id))
}
