package rpc

import (
	"context"
	"errors"
	"net"

	"github.com/slipway-run/slipway/sdk"
)

var errNotWired = errors.New("rpc: services are not wired yet")

// DialOptions are the optional settings of [Dial].
type DialOptions struct {
	// Gone is closed by the caller when the plugin's process has died: every call then ends at once, as Unavailable with
	// ReasonPluginGone. Nil: never.
	Gone <-chan struct{}
}

// Client is a host's side of one plugin. All its methods may be called from many goroutines.
type Client struct{}

// Dial connects to a plugin at addr: once for control calls and once for data, so that no control call waits for a stream.
func Dial(ctx context.Context, addr net.Addr, opts DialOptions) (*Client, error) {
	return nil, errNotWired
}

// Info tells the plugin who the host is and learns who the plugin is.
func (c *Client) Info(ctx context.Context, host sdk.HostInfo) (sdk.PluginInfo, error) {
	return sdk.PluginInfo{}, errNotWired
}

// Configure opens the plugin's runtime.
func (c *Client) Configure(ctx context.Context, plugin sdk.Block, workers []sdk.Block) error {
	return errNotWired
}

// Health asks for a sign of life.
func (c *Client) Health(ctx context.Context) error { return errNotWired }

// Runtime gives the plugin's runtime. It is usable once Configure has succeeded.
func (c *Client) Runtime() sdk.Runtime { return nil }

// Close ends both connections and every call on them. Idempotent.
func (c *Client) Close() error { return nil }
