package rpc

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// The handshake's constants. They say "this is a Slipway runtime plugin of contract version 1" and are no secret.
const (
	protocolVersion = 1
	cookieKey       = "SLIPWAY_PLUGIN"
	cookieValue     = "slipway-runtime-v1"
	pluginName      = "runtime"
)

// Handshake gives what both sides of a plugin process must agree on before they talk.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: protocolVersion, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue}
}

// Plugins gives the set of plugins for go-plugin's client. There is nothing in it to dispense: start the process with it,
// then hand its address to [Dial].
func Plugins() plugin.PluginSet {
	return plugin.PluginSet{pluginName: &services{}}
}

// services is the plugin in go-plugin's sense: all services of the contract, registered together.
type services struct {
	plugin.NetRPCUnsupportedPlugin
	register func(grpc.ServiceRegistrar)
}

func (s *services) GRPCServer(_ *plugin.GRPCBroker, r *grpc.Server) error {
	s.register(r)
	return nil
}

func (s *services) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("nothing to dispense: dial the plugin's address with rpc.Dial")
}
