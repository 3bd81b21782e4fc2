package api

import (
	"context"
	"os"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slipway-run/slipway/host/api/internal/pb"
)

type hostService struct{ *Server }

// GetHost tells who answers.
func (s hostService) GetHost(context.Context, *connect.Request[pb.GetHostRequest]) (*connect.Response[pb.GetHostResponse], error) {
	return connect.NewResponse(&pb.GetHostResponse{Version: s.opts.Version, Installation: s.h.Installation(), StateDir: s.h.StateDir(),
		Pid: int64(os.Getpid()), Draining: s.Draining(), Changing: s.h.Changing()}), nil
}

// ListPlugins lists the plugins.
func (s hostService) ListPlugins(ctx context.Context, c *connect.Request[pb.ListPluginsRequest]) (*connect.Response[pb.ListPluginsResponse], error) {
	s.settle(ctx, c.Msg.GetPatience())
	out := &pb.ListPluginsResponse{}
	for _, r := range s.h.Plugins() {
		out.Plugins = append(out.Plugins, pbPlugin(r))
	}
	return connect.NewResponse(out), nil
}

// ListWorkers lists the workers.
func (s hostService) ListWorkers(ctx context.Context, c *connect.Request[pb.ListWorkersRequest]) (*connect.Response[pb.ListWorkersResponse], error) {
	s.settle(ctx, c.Msg.GetPatience())
	out := &pb.ListWorkersResponse{}
	for _, r := range s.h.Workers() {
		out.Workers = append(out.Workers, pbWorker(r))
	}
	return connect.NewResponse(out), nil
}

// settle gives plugins that have just been started a time to tell what they have. Those that need longer are listed as they are.
func (s *Server) settle(ctx context.Context, patience *durationpb.Duration) {
	if patience.AsDuration() <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience.AsDuration())
	defer cancel()
	_ = s.h.Ready(ctx)
}
