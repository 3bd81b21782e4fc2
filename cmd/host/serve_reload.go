package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api"
	"github.com/slipway-run/slipway/host/config"
)

// configReader gives what reads a daemon's configuration file anew; nil: it has none.
func (a *app) configReader() func() (*config.Config, hcl.Diagnostics) {
	if a.configFile == "" {
		return nil
	}
	file := a.configFile
	return func() (*config.Config, hcl.Diagnostics) { return config.Load(file) }
}

// reloadAt has the daemon read its configuration anew at each hangup, until ctx ends or end is called. That waits for the last one, which the server's end ends.
func reloadAt(ctx context.Context, hups <-chan struct{}, s *api.Server, log *slog.Logger) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-hups:
			case <-ctx.Done():
				return
			}
			log.Info("SIGHUP: reading the configuration anew")
			_, err := s.Reload(context.WithoutCancel(ctx)) // which tells of it
			if errors.Is(err, host.ErrClosed) {
				return
			}
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
}
