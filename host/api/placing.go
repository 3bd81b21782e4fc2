package api

import (
	"context"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
)

// PlaceOutput notes that an output is about to be where it is wanted.
func (s runService) PlaceOutput(ctx context.Context, c *connect.Request[pb.PlaceOutputRequest]) (*connect.Response[pb.PlaceOutputResponse], error) {
	p := c.Msg.GetPlacing()
	if p.GetTarget() == "" || p.GetDirectory() == "" {
		return nil, answer(invalid("output %q of run %s is placed nowhere", c.Msg.GetName(), c.Msg.GetId()))
	}
	s.mu.Lock()
	r := s.runs[c.Msg.GetId()]
	s.mu.Unlock()
	if r == nil || !r.waits(c.Msg.GetName()) {
		return nil, answer(invalid("output %q of run %s does not wait to be placed", c.Msg.GetName(), c.Msg.GetId()))
	}
	err := s.h.NotePlacing(ctx, c.Msg.GetId(), c.Msg.GetName(), host.Placing{Target: p.GetTarget(), Directory: p.GetDirectory()})
	if err != nil {
		return nil, answer(err)
	}
	return connect.NewResponse(&pb.PlaceOutputResponse{}), nil
}

func pbPlacing(placing map[string]host.Placing) map[string]*pb.Placing {
	out := make(map[string]*pb.Placing, len(placing))
	for name, p := range placing {
		out[name] = &pb.Placing{Target: p.Target, Directory: p.Directory}
	}
	return out
}

func fromPlacing(placing map[string]*pb.Placing) map[string]host.Placing {
	out := make(map[string]host.Placing, len(placing))
	for name, p := range placing {
		out[name] = host.Placing{Target: p.GetTarget(), Directory: p.GetDirectory()}
	}
	return out
}
