package api

import (
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/sdk"
)

// Reap takes away what nobody uses, or says what it would.
func (s hostService) Reap(ctx context.Context, c *connect.Request[pb.ReapRequest]) (*connect.Response[pb.ReapResponse], error) {
	if err := s.ready(ctx); err != nil {
		return nil, answer(err)
	}
	ctx, cancel := s.while(ctx)
	defer cancel()
	report, err := s.h.Reap(ctx, c.Msg.GetDryRun())
	if err != nil {
		return nil, answer(because(ctx, err))
	}
	return connect.NewResponse(&pb.ReapResponse{Verdicts: pbVerdicts(report.Verdicts), Away: report.Away}), nil
}

// ExplainReap says why things stay or go.
func (s hostService) ExplainReap(ctx context.Context, c *connect.Request[pb.ExplainReapRequest]) (*connect.Response[pb.ExplainReapResponse], error) {
	if err := s.ready(ctx); err != nil {
		return nil, answer(err)
	}
	ctx, cancel := s.while(ctx)
	defer cancel()
	verdicts, err := s.h.ExplainReap(ctx, c.Msg.GetId())
	if unknown, ok := errors.AsType[*host.UnknownThingError](err); ok {
		err = &sdk.Error{Class: sdk.NotFound, ID: unknown.ID, Message: unknown.Error()}
	}
	if err != nil {
		return nil, answer(because(ctx, err))
	}
	return connect.NewResponse(&pb.ExplainReapResponse{Verdicts: pbVerdicts(verdicts)}), nil
}

// ListVolumes lists volumes.
func (s hostService) ListVolumes(ctx context.Context, c *connect.Request[pb.ListVolumesRequest]) (*connect.Response[pb.ListVolumesResponse], error) {
	list, err := s.h.Volumes(ctx, c.Msg.GetWorker())
	if err != nil {
		return nil, answer(err)
	}
	out := &pb.ListVolumesResponse{}
	for _, v := range list {
		out.Volumes = append(out.Volumes, &pb.Volume{Id: v.ID, Worker: v.Worker, State: v.State, Role: v.Role, Path: v.Path, Owner: v.Owner,
			Artifact: v.Artifact, Bytes: v.Bytes, CreatedAt: stamp(v.Created)})
	}
	return connect.NewResponse(out), nil
}

func pbVerdicts(all []host.ReapVerdict) []*pb.ReapVerdict {
	var out []*pb.ReapVerdict
	for _, v := range all {
		out = append(out, &pb.ReapVerdict{Worker: v.Worker, Kind: v.Kind, Id: v.ID, Action: string(v.Action), Reason: v.Reason, At: stamp(v.At), Error: pbError(v.Err)})
	}
	return out
}

func fromVerdicts(all []*pb.ReapVerdict) []host.ReapVerdict {
	var out []host.ReapVerdict
	for _, v := range all {
		out = append(out, host.ReapVerdict{Worker: v.GetWorker(), Kind: v.GetKind(), ID: v.GetId(), Action: host.ReapAction(v.GetAction()),
			Reason: v.GetReason(), At: fromStamp(v.GetAt()), Err: fromError(v.GetError())})
	}
	return out
}

// explainRun answers for a run.
func (s *Server) explainRun(ctx context.Context, run string) (*pb.ExplainResponse, error) {
	all, err := s.h.ExplainRun(ctx, run)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 { // nobody knows it, or nothing of it was placed yet
		if _, err := s.runInfo(ctx, run); err != nil {
			return nil, err
		}
	}
	out := &pb.ExplainResponse{}
	for _, e := range all {
		out.Explanations = append(out.Explanations, pbExplanation(strings.TrimPrefix(e.Owner, host.RunOwner(run, "")), e))
	}
	return out, nil
}
