package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/slipway-run/slipway/sdk"
)

// Serve is the whole main of a plugin. It returns when the host has told the plugin to end.
func Serve(p sdk.Plugin) {
	panic("rpc.Serve: services are not wired yet")
}

// ServeOptions are the optional settings of [ServeOn].
type ServeOptions struct {
	Log *slog.Logger // nil: nothing is logged
}

// ServeOn serves a configured runtime on a listener until ctx ends.
func ServeOn(ctx context.Context, lis net.Listener, info sdk.PluginInfo, rt sdk.Runtime, opts ServeOptions) error {
	return errors.New("rpc.ServeOn: services are not wired yet")
}
