package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
)

// FindCache finds the artifact under a key.
func (s artifactService) FindCache(ctx context.Context, c *connect.Request[pb.FindCacheRequest]) (*connect.Response[pb.FindCacheResponse], error) {
	a, err := s.h.FindCache(ctx, c.Msg.GetTeam(), c.Msg.GetKey(), fromStamp(c.Msg.GetValidAt()))
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.FindCacheResponse{Artifact: a.Name}), nil
}

// KeepCache puts an artifact under a key.
func (s artifactService) KeepCache(ctx context.Context, c *connect.Request[pb.KeepCacheRequest]) (*connect.Response[pb.KeepCacheResponse], error) {
	a, err := s.artifact(ctx, c.Msg.GetArtifact())
	if err == nil {
		a, err = s.h.KeepCache(ctx, a, host.CacheRequest{Team: c.Msg.GetTeam(), Key: c.Msg.GetKey(), Source: c.Msg.GetSource(), TTL: c.Msg.GetTtl().AsDuration()})
	}
	if err != nil {
		return nil, answer(err)
	}
	valid := &pb.KeepCacheResponse{}
	if a != nil {
		valid.Artifact = a.Name
	}
	return connect.NewResponse(valid), nil
}

// InvalidateCache takes what is under a key for stale.
func (s artifactService) InvalidateCache(ctx context.Context, c *connect.Request[pb.InvalidateCacheRequest]) (*connect.Response[pb.InvalidateCacheResponse], error) {
	if c.Msg.GetKey() == "" {
		return nil, answer(invalid("a cache's key is missing"))
	}
	if err := s.h.InvalidateCache(ctx, c.Msg.GetTeam(), c.Msg.GetKey()); err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.InvalidateCacheResponse{}), nil
}
