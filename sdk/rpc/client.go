package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// DialOptions are the optional settings of [Dial].
type DialOptions struct {
	// Gone is closed by the caller when the plugin's process has died: every call then ends at once, as Unavailable with
	// ReasonPluginGone. Nil: never.
	Gone <-chan struct{}

	// Unchecked sends specs to the plugin as they are. Else what is wrong with one is refused here, which no host can do without: a plugin in
	// another language may not look. It is for tests that ask whether a plugin does.
	Unchecked bool

	// Dialer makes each connection in place of dialling addr, which is then only a name for errors. It is for servers behind something that keeps
	// others out, for gRPC adds nothing of that kind: the connection counts as good as a private socket. ctx ends with the
	// client, or when this attempt has taken half a minute. Called for each of the two connections, again
	// after each loss, and by several goroutines at once. Its error's words become part of a call's Cause; the error itself does not.
	Dialer func(ctx context.Context) (net.Conn, error)
}

// patience is how long one attempt to connect may take.
func (o DialOptions) patience() time.Duration {
	if o.Dialer != nil {
		return 30 * time.Second
	}
	return 5 * time.Second
}

// Client is a host's side of one plugin. All its methods may be called from many goroutines.
type Client struct {
	conns  []*grpc.ClientConn
	plugin pb.PluginClient
	worker pb.WorkerClient
	data   pb.DataClient
	pool   mem.BufferPool
	told   kept

	unchecked bool

	life    context.Context // ends when the plugin is gone or the client closed
	endLife context.CancelFunc
	watcher sync.WaitGroup
}

// Dial connects to a plugin at addr: once for control calls and once for data, so that no control call waits for a stream.
// It waits for neither: ctx bounds only the making of the client, and a server that is not there shows at the first call.
// A lost connection is dialled again by later calls. The caller closes the client.
func Dial(ctx context.Context, addr net.Addr, opts DialOptions) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return dial(addr, opts, &buffers{})
}

func dial(addr net.Addr, opts DialOptions, pool mem.BufferPool) (*Client, error) {
	c := &Client{pool: pool, unchecked: opts.Unchecked}
	for range 2 {
		conn, err := connect(addr, opts, pool)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("dialling plugin at %s: %w", addr, err), c.closeConns())
		}
		c.conns = append(c.conns, conn)
	}
	control, data := c.conns[0], c.conns[1]
	c.plugin, c.worker, c.data = pb.NewPluginClient(control), pb.NewWorkerClient(control), pb.NewDataClient(data)
	c.life, c.endLife = context.WithCancel(context.Background())
	c.watcher.Go(func() {
		select {
		case <-opts.Gone:
			c.endLife()
		case <-c.life.Done():
		}
	})
	return c, nil
}

func connect(addr net.Addr, opts DialOptions, pool mem.BufferPool) (*grpc.ClientConn, error) {
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		if opts.Dialer != nil {
			return opts.Dialer(ctx)
		}
		var d net.Dialer
		return d.DialContext(ctx, addr.Network(), addr.String())
	}
	return grpc.NewClient("passthrough:///plugin",
		grpc.WithTransportCredentials(newSockets()),
		grpc.WithContextDialer(dial),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2,
			MaxDelay: time.Second}, MinConnectTimeout: opts.patience()}),
		grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.ForceCodecV2(newCodec())),
		grpc.WithUnaryInterceptor(traceUnary),
		grpc.WithStreamInterceptor(traceStream),
		experimental.WithBufferPool(pool),
		grpc.WithReadBufferSize(socketBuffer),
		grpc.WithWriteBufferSize(socketBuffer),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
	)
}

// Info tells the plugin who the host is and learns who the plugin is.
func (c *Client) Info(ctx context.Context, host sdk.HostInfo) (sdk.PluginInfo, error) {
	resp, err := unary(ctx, c, c.plugin.Info, &pb.InfoRequest{Version: host.Version, Installation: host.Installation})
	if err != nil {
		return sdk.PluginInfo{}, err
	}
	return infoFromPB(resp), nil
}

// Configure opens the plugin's runtime. It works once in the life of a plugin's process; a second time, whatever the first
// one gave, is FailedPrecondition. A server of its own, see [ServeOn], is Unsupported.
func (c *Client) Configure(ctx context.Context, plugin sdk.Block, workers []sdk.Block) error {
	r := &pb.ConfigureRequest{Plugin: blockToPB(plugin)}
	for _, b := range workers {
		r.Workers = append(r.Workers, blockToPB(b))
	}
	_, err := unary(ctx, c, c.plugin.Configure, r)
	return err
}

// Health asks for a sign of life. Nil means that the plugin answers, not that its workers are well.
func (c *Client) Health(ctx context.Context) error {
	_, err := unary(ctx, c, c.plugin.Health, &pb.HealthRequest{})
	return err
}

// Runtime gives the plugin's runtime, which is usable once Configure has succeeded. Its workers implement every optional
// interface and are Unsupported where the plugin's do not. Its Worker method knows no names: a call to a worker that the
// plugin does not have is NotFound of a worker.
func (c *Client) Runtime() sdk.Runtime {
	if c.unchecked {
		return (*runtime)(c)
	}
	return sdk.Checked((*runtime)(c))
}

// Close ends both connections and every call on them, as Unavailable with ReasonPluginGone. Idempotent.
func (c *Client) Close() error {
	c.endLife()
	c.watcher.Wait()
	return c.closeConns()
}

func (c *Client) closeConns() error {
	var errs []error
	for _, conn := range c.conns {
		if err := conn.Close(); status.Code(err) != codes.Canceled { // closed before
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// call gives the context of one call: it ends with the caller's, with the client, or by end.
func (c *Client) call(ctx context.Context) (callCtx context.Context, end func()) {
	callCtx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return callCtx, func() {
		stop()
		cancel()
	}
}

// fail makes the caller's error of a call's. request is what the call began with.
func (c *Client) fail(ctx context.Context, err error, request proto.Message) error {
	if detailOf(status.Convert(err)) == nil {
		if _, bad := proto.Marshal(request); bad != nil {
			return sdk.NewInvalid(sdk.ReasonSpec, "the request cannot be sent: %v", bad)
		}
	}
	return fromStatus(ctx, err, c.life.Err() != nil)
}

// checkSize is Invalid for a request that no server takes.
func checkSize(request proto.Message) error {
	if n := proto.Size(request); n > maxMessage {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "the request takes %d bytes, more than %d", n, maxMessage)
	}
	return nil
}

// unary makes a call that answers once.
func unary[Req, Resp proto.Message](ctx context.Context, c *Client,
	method func(context.Context, Req, ...grpc.CallOption) (Resp, error), request Req) (none Resp, _ error) {
	if err := checkSize(request); err != nil {
		return none, err
	}
	callCtx, end := c.call(ctx)
	defer end()
	resp, err := method(callCtx, request)
	if err != nil {
		return none, c.fail(ctx, err, request)
	}
	return resp, nil
}
