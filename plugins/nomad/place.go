package nomad

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/slipway-run/slipway/sdk"
)

// placed is where a container is.
type placed struct {
	alloc *api.Allocation // only what never changes of it counts
}

// await waits until Nomad has placed a job, which it does in milliseconds where there is room. Where there never will be, or is none for too long, it
// says so with Nomad's own reasons; the caller then takes the job away, or it would start later. Neither an allocation nor an error: another evaluation
// of the job has placed it, or will.
func (n *node) await(ctx context.Context, id sdk.ContainerID, asked *api.Resources, eval string, progress func(sdk.Progress)) (*api.AllocationListStub, error) {
	k := n.cluster
	patience, stop := context.WithTimeout(ctx, time.Duration(n.pool.c.PlaceTimeout))
	defer stop()
	for index := uint64(0); ; {
		q, _, cancel := k.waiting(patience, index)
		e, meta, err := k.client.Evaluations().Info(eval, q)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case patience.Err() != nil:
			return nil, sdk.NewExhausted("", "container %q: %s has not placed it on node %s within %v", id, k, short(n.id), time.Duration(n.pool.c.PlaceTimeout))
		case err != nil:
			return nil, k.fail(ctx, "looking for the place of container "+string(id), err)
		}
		index = meta.LastIndex
		for _, m := range e.FailedTGAllocs {
			return nil, n.noPlace(id, asked, m)
		}
		switch e.Status {
		case api.EvalStatusComplete:
			asking, cancel := k.in(ctx)
			allocs, _, err := k.client.Evaluations().Allocations(eval, k.query(asking))
			cancel()
			if err != nil {
				return nil, k.fail(ctx, "looking for the allocation of container "+string(id), err)
			}
			switch len(allocs) {
			case 0: // that of an earlier job's end came later, and has placed this one, too
				return nil, nil
			case 1:
				return allocs[0], nil
			}
			return nil, sdk.NewInternal(nil, "container %q: %s made %d allocations of it, not one", id, k, len(allocs))
		case api.EvalStatusFailed, api.EvalStatusCancelled:
			return nil, sdk.NewUnavailable(nil, "container %q: %s did not place it: evaluation %s is %s: %s", id, k, short(eval), e.Status, e.StatusDescription)
		}
		progress(sdk.Progress{Phase: "queued", Message: cmp.Or(e.StatusDescription, "waiting for a place")})
	}
}

// cannot is the error of what this worker never can, and another one may: hosts look for that.
func cannot(reason sdk.Reason, format string, args ...any) error {
	return &sdk.Error{Class: sdk.Unsupported, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// noPlace says why Nomad has no place: Unsupported where it can have none on this node, Exhausted where there is no room now.
func (n *node) noPlace(id sdk.ContainerID, asked *api.Resources, m *api.AllocationMetric) error {
	if len(m.DimensionExhausted) > 0 || len(m.QuotaExhausted) > 0 || m.NodesExhausted > 0 {
		what := slices.Sorted(maps.Keys(m.DimensionExhausted))
		if n.neverFits(asked) {
			return cannot(sdk.ReasonTooLarge, "container %q: node %s is too small for it even when empty: %s", id, short(n.id), strings.Join(append(what, m.QuotaExhausted...), ", "))
		}
		if len(m.QuotaExhausted) > 0 { // of Nomad Enterprise; more than its quota a namespace never has, but how much that is Nomad does not tell
			return sdk.NewExhausted("", "container %q: the quota of namespace %q has no room for it: %s", id, n.pool.c.Namespace, strings.Join(m.QuotaExhausted, ", "))
		}
		reason := sdk.Reason("")
		if m.DimensionExhausted["memory"] > 0 {
			reason = sdk.ReasonMemory
		}
		return sdk.NewExhausted(reason, "container %q: node %s has no room now: %s exhausted", id, short(n.id), strings.Join(what, ", "))
	}
	var filtered []string
	for _, c := range slices.Sorted(maps.Keys(m.ConstraintFiltered)) {
		if !strings.Contains(c, "${node.unique.id}") { // which filters all others, as it should
			filtered = append(filtered, c)
		}
	}
	filtered = append(filtered, slices.Sorted(maps.Keys(m.ClassFiltered))...)
	if len(filtered) == 0 {
		// The node itself was not among those that were looked at: draining, ineligible or down.
		return sdk.NewExhausted("", "container %q: node %s takes no work: it is %s", id, short(n.id), n.condition())
	}
	return cannot(sdk.ReasonSpec, "container %q: node %s does not meet: %s", id, short(n.id), strings.Join(filtered, "; "))
}

// neverFits tells whether what is asked is more than the node has for tasks in all.
func (n *node) neverFits(asked *api.Resources) bool {
	stub, _ := n.pool.stub(n.name)
	if stub == nil || stub.NodeResources == nil {
		return false
	}
	memory, shares := forTasks(stub)
	return int64(*asked.MemoryMB) > memory || int64(*asked.CPU) > shares
}

// forTasks gives the memory, in MiB, and the CPU, in MHz, that a node has for tasks: all but what its operator has reserved for the machine itself.
func forTasks(stub *api.NodeListStub) (memory, shares int64) {
	memory, shares = stub.NodeResources.Memory.MemoryMB, stub.NodeResources.Cpu.CpuShares
	if r := stub.ReservedResources; r != nil {
		memory, shares = memory-int64(r.Memory.MemoryMB), shares-int64(r.Cpu.CpuShares)
	}
	return memory, shares
}

// condition is a node's state in Nomad's words.
func (n *node) condition() string {
	stub, err := n.pool.stub(n.name)
	switch {
	case stub == nil && err != nil:
		return "unknown (" + err.Error() + ")"
	case stub == nil:
		return "not in the pool any more"
	case stub.Status != api.NodeStatusReady:
		return stub.Status
	case stub.Drain:
		return "draining"
	case stub.SchedulingEligibility != api.NodeSchedulingEligible:
		return stub.SchedulingEligibility
	}
	if d := stub.Drivers[n.pool.c.Driver]; d == nil || !d.Healthy {
		why := "not there"
		if d != nil {
			why = d.HealthDescription
		}
		return fmt.Sprintf("ready, but its driver %s is not healthy: %s", n.pool.c.Driver, why)
	}
	return api.NodeStatusReady
}

// up waits until a container's keeper answers, or its task has ended before. Commands get in as soon as the task is up, about a second before Nomad says so.
func (n *node) up(ctx context.Context, id sdk.ContainerID, stub *api.AllocationListStub, progress func(sdk.Progress)) error {
	k := n.cluster
	ctx, stop := context.WithTimeoutCause(ctx, time.Duration(n.pool.c.StartTimeout), errSlowStart)
	defer stop()
	told, refused := 0, 0
	var eager eager
	progress(sdk.Progress{Phase: "starting", Message: "placed on node " + short(n.id)})
	for index, pause, wait := uint64(0), eagerFirst, eagerFirst; ; {
		q, _, cancel := k.waiting(ctx, index)
		q.WaitTime = wait // commands may get in before the allocation changes
		a, meta, err := k.client.Allocations().Info(stub.ID, q)
		cancel()
		if ctx.Err() != nil {
			return slowStart(ctx, id)
		}
		if missing(err) {
			return sdk.NewUnavailable(err, "container %q: its allocation %s is gone while it starts", id, short(stub.ID))
		}
		if err != nil {
			return k.fail(ctx, "watching the start of container "+string(id), err)
		}
		index = meta.LastIndex
		state := a.TaskStates[taskName]
		if state != nil {
			for ; told < len(state.Events); told++ {
				e := state.Events[told]
				progress(sdk.Progress{Phase: phase(e.Type), Message: e.DisplayMessage})
			}
		}
		if a.ClientTerminalStatus() || a.ServerTerminalStatus() {
			return n.notStarted(id, a)
		}
		if forgotten(a.TaskStates, taskName) {
			return sdk.NewUnavailable(nil, "container %q: while it starts, %s", id, forgot)
		}
		if state == nil || state.State == "pending" && !begun(state) {
			due := false
			if due, wait = eager.due(time.Now(), state); due && n.early(ctx, id, a, eagerTry) == nil {
				return nil
			}
			wait = max(wait, eagerFirst)
			continue
		}
		wait, pause = pause, min(pause*3/2, time.Second)
		n.remember(id, a)
		_, err = n.Ready(ctx, id)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return slowStart(ctx, id)
		}
		if sdk.ClassOf(err) != sdk.Unavailable && !isNotYet(err) {
			return err
		}
		if state.State == "running" {
			if refused++; refused == n.pool.refusals {
				return sdk.NewUnavailable(errors.Join(errDeaf, err), "container %q: it runs on node %s of %s, but no command gets into it: %v; commands need an ACL token with %s",
					id, short(n.id), k, err, execNeeds(n.pool.c.Driver))
			}
		}
	}
}

// mostRefused is after how many refusals, in some ten seconds, a task that Nomad says is running takes no command: a busy agent refuses what it takes a moment
// later. Nomad does not tell why: one that must not gets the same words as one that cannot.
const mostRefused = 20

// errDeaf is in the error of a container that takes no command, and never will. If the token may, that is a race in Nomad's client (1.9.4:
// allocRunner.AllocState): a command that comes while the task is called up writes back the states of before, and from then on no command finds it started.
var errDeaf = errors.New("it takes no command")

// begun tells whether a task's driver was asked to start it.
func begun(s *api.TaskState) bool {
	return slices.ContainsFunc(s.Events, func(e *api.TaskEvent) bool { return e.Type == api.TaskStarted })
}

// phase is a task event's type as one word.
func phase(event string) string {
	switch event {
	case api.TaskDownloadingArtifacts:
		return "fetching"
	case api.TaskDriverMessage:
		return "pulling"
	case api.TaskStarted:
		return "starting"
	}
	return "queued"
}

// events are an allocation's last words.
func events(a *api.Allocation) string { return eventsOf(a, taskName) }

func eventsOf(a *api.Allocation, task string) string {
	var words []string
	if s := a.TaskStates[task]; s != nil {
		for _, e := range s.Events {
			if e.DisplayMessage != "" {
				words = append(words, e.Type+": "+e.DisplayMessage)
			}
		}
	}
	if a.ClientDescription != "" {
		words = append(words, a.ClientDescription)
	}
	if a.DesiredDescription != "" {
		words = append(words, a.DesiredDescription)
	}
	const most = 4
	return strings.Join(words[max(0, len(words)-most):], "; ")
}
