package api

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/sdk"
)

// Reload reads the configuration anew, has the host go by it, and tells what that came to, in the log, too. One goes at a time, so that what was written last holds
// in the end. When ctx ends, only the waiting for it does.
func (s *Server) Reload(ctx context.Context) ([]host.Change, error) {
	finish, err := s.begin()
	if err != nil {
		return nil, err
	}
	var changes []host.Change
	var failure error
	done := make(chan struct{})
	err = s.spawn(func() {
		defer close(done)
		defer finish()
		changes, failure = s.reload(s.ctx)
	})
	if err != nil {
		finish()
		return nil, err
	}
	select {
	case <-done:
		return changes, failure
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Server) reload(ctx context.Context) ([]host.Change, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	changes, err := s.readConfig(ctx)
	if err != nil {
		s.log.Error("the configuration was not read anew, and nothing has changed", "error", err)
		return nil, err
	}
	for _, c := range changes {
		if c.Done() {
			s.log.Info("configuration: " + c.String())
		} else {
			s.log.Warn("configuration: " + c.String())
		}
	}
	s.log.Info("the configuration was read anew", "changes", len(changes))
	return changes, nil
}

func (s *Server) readConfig(ctx context.Context) ([]host.Change, error) {
	if s.opts.Config == nil {
		return nil, &sdk.Error{Class: sdk.FailedPrecondition, Message: "the daemon was started without a configuration file (--config): there is none to read"}
	}
	cfg, diags := s.opts.Config()
	if diags.HasErrors() {
		return nil, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonConfig, Message: diagnostics(diags)}
	}
	for _, d := range diags {
		s.log.Warn("the configuration may be wrong", "warning", d.Error())
	}
	changes, err := s.h.Reload(ctx, cfg)
	if bad, ok := errors.AsType[*host.ConfigError](err); ok {
		err = &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonConfig, Message: diagnostics(bad.Diagnostics), Cause: err}
	}
	return changes, err
}

// Reload reads the configuration anew.
func (s hostService) Reload(ctx context.Context, _ *connect.Request[pb.ReloadRequest]) (*connect.Response[pb.ReloadResponse], error) {
	changes, err := s.Server.Reload(ctx)
	if err != nil {
		return nil, answer(err)
	}
	out := &pb.ReloadResponse{}
	for _, c := range changes {
		out.Changes = append(out.Changes, &pb.Change{What: c.What, Kind: string(c.Kind), Why: c.Why})
	}
	return connect.NewResponse(out), nil
}

// RestartPlugin starts a plugin's process anew.
func (s hostService) RestartPlugin(ctx context.Context, c *connect.Request[pb.RestartPluginRequest]) (*connect.Response[pb.RestartPluginResponse], error) {
	ctx, cancel := s.while(ctx)
	defer cancel()
	if err := s.h.RestartPlugin(ctx, c.Msg.GetName(), c.Msg.GetForce()); err != nil {
		return nil, answer(because(ctx, err))
	}
	return connect.NewResponse(&pb.RestartPluginResponse{}), nil
}

// Reload has the daemon read its configuration file anew, and tells what that came to.
func (c *Client) Reload(ctx context.Context) ([]host.Change, error) {
	r, err := c.host.Reload(ctx, connect.NewRequest(&pb.ReloadRequest{}))
	if err != nil {
		return nil, c.err(ctx, err)
	}
	var out []host.Change
	for _, change := range r.Msg.GetChanges() {
		out = append(out, host.Change{What: change.GetWhat(), Kind: host.ChangeKind(change.GetKind()), Why: change.GetWhy()})
	}
	return out, nil
}

// RestartPlugin has the daemon start a plugin's process anew, as host.Host does.
func (c *Client) RestartPlugin(ctx context.Context, name string, force bool) error {
	_, err := c.host.RestartPlugin(ctx, connect.NewRequest(&pb.RestartPluginRequest{Name: name, Force: force}))
	return c.err(ctx, err)
}
