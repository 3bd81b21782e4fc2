package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
)

// Reap looks at everything once and takes away what nobody uses; dry, it only says what it would do.
func (c *Client) Reap(ctx context.Context, dry bool) (*host.ReapReport, error) {
	r, err := c.host.Reap(ctx, connect.NewRequest(&pb.ReapRequest{DryRun: dry}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	return &host.ReapReport{Verdicts: fromVerdicts(r.Msg.GetVerdicts()), Away: r.Msg.GetAway()}, nil
}

// ExplainReap tells what becomes of everything that an id or a name stands for, as host.Host does. What is not known is sdk.NotFound.
func (c *Client) ExplainReap(ctx context.Context, id string) ([]host.ReapVerdict, error) {
	r, err := c.host.ExplainReap(ctx, connect.NewRequest(&pb.ExplainReapRequest{Id: id}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	return fromVerdicts(r.Msg.GetVerdicts()), nil
}

// ExplainRun explains where the steps of a run were placed, and what those wait for that are not yet, as host.Host does.
func (c *Client) ExplainRun(ctx context.Context, run string) ([]*host.Explanation, error) {
	r, err := c.host.Explain(ctx, connect.NewRequest(&pb.ExplainRequest{What: &pb.ExplainRequest_Run{Run: run}}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []*host.Explanation
	for _, e := range r.Msg.GetExplanations() {
		out = append(out, fromExplanation(e))
	}
	return out, nil
}

// Runs lists the runs that are remembered, the oldest first.
func (c *Client) Runs(ctx context.Context) ([]host.RunInfo, error) {
	r, err := c.runs.ListRuns(ctx, connect.NewRequest(&pb.ListRunsRequest{}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []host.RunInfo
	for _, i := range r.Msg.GetRuns() {
		out = append(out, host.RunInfo{ID: i.GetId(), Running: i.GetState() == stateRunning, Ended: i.GetState() == stateEnded,
			Created: fromStamp(i.GetSince()), EndedAt: fromStamp(i.GetEndedAt())})
	}
	return out, nil
}

// DestroyContainer ends an owner's container and all that is in it. An owner who has none is sdk.NotFound; those of runs are refused.
func (c *Client) DestroyContainer(ctx context.Context, owner string) error {
	_, err := c.containers.DestroyContainer(ctx, connect.NewRequest(&pb.DestroyContainerRequest{Owner: owner}))
	return c.err(ctx, err)
}

// Containers lists what is remembered of the containers whose owners begin with a prefix, in the order in which they were made, and who of these owners waits for a place
// on a worker or for its turn, as [host.Host.Waiting] does: in one answer, for both take the host some time.
func (c *Client) Containers(ctx context.Context, ownerPrefix string) (out []host.ContainerInfo, waiting []*host.Explanation, err error) {
	r, err := c.containers.ListContainers(ctx, connect.NewRequest(&pb.ListContainersRequest{OwnerPrefix: ownerPrefix, All: true}))
	if err != nil {
		return nil, nil, c.err(ctx, err)
	}
	for _, i := range r.Msg.GetContainers() {
		info := host.ContainerInfo{ID: i.GetId(), Owner: i.GetOwner(), Worker: i.GetWorker(), State: i.GetState(), Created: fromStamp(i.GetCreatedAt()), Expires: fromStamp(i.GetExpiresAt())}
		for _, p := range i.GetProcesses() {
			info.Processes = append(info.Processes, host.ProcessInfo{Name: p.GetName(), State: p.GetState(), Path: p.GetPath(), Exit: fromExit(p.GetExit()),
				Reason: p.GetReason(), Started: fromStamp(p.GetStartedAt()), Ended: fromStamp(p.GetEndedAt())})
		}
		out = append(out, info)
	}
	for _, e := range r.Msg.GetWaiting() {
		waiting = append(waiting, fromExplanation(e))
	}
	return out, waiting, nil
}

// Volumes lists what is remembered of the volumes on a worker, or of all if it is empty, in the order in which they were made.
func (c *Client) Volumes(ctx context.Context, worker string) ([]host.VolumeInfo, error) {
	r, err := c.host.ListVolumes(ctx, connect.NewRequest(&pb.ListVolumesRequest{Worker: worker}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []host.VolumeInfo
	for _, v := range r.Msg.GetVolumes() {
		out = append(out, host.VolumeInfo{ID: v.GetId(), Worker: v.GetWorker(), State: v.GetState(), Role: v.GetRole(), Path: v.GetPath(), Owner: v.GetOwner(),
			Artifact: v.GetArtifact(), Bytes: v.GetBytes(), Created: fromStamp(v.GetCreatedAt())})
	}
	return out, nil
}
