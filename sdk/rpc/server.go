package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// How a server ends: running calls may go on for drainTime; then they are cut off and get stopTime to return.
const (
	drainTime = 5 * time.Second
	stopTime  = time.Second
)

const servicePrefix = "/slipway.runtime.v1alpha1."

// server is the contract over one runtime, for any number of connections.
type server struct {
	pb.UnimplementedPluginServer
	pb.UnimplementedWorkerServer
	pb.UnimplementedDataServer

	info sdk.PluginInfo
	log  *slog.Logger
	open func(context.Context, sdk.Config) (sdk.Runtime, error) // nil: configured from the start

	life    context.Context // ends when the server was told to end
	endLife context.CancelFunc
	calls   *calls
	handles *handles
	pool    mem.BufferPool
	grace   time.Duration  // drainTime, but for tests
	readers sync.WaitGroup // goroutines that a stream's end releases only after its handler has returned
	begin   func()         // before each call, of whatever service

	mu         sync.Mutex
	configured bool        // or being configured
	runtime    sdk.Runtime // checked
}

func newServer(info sdk.PluginInfo, log *slog.Logger) *server {
	s := &server{info: info, log: log, pool: &buffers{}, calls: newCalls(), handles: newHandles(), grace: drainTime, begin: func() {}}
	s.life, s.endLife = context.WithCancel(context.Background())
	return s
}

func (s *server) register(r grpc.ServiceRegistrar) {
	pb.RegisterPluginServer(r, s)
	pb.RegisterWorkerServer(r, s)
	pb.RegisterDataServer(r, s)
}

func (s *server) grpcServer(opts []grpc.ServerOption) *grpc.Server {
	opts = append([]grpc.ServerOption{grpc.Creds(newSockets())}, opts...) // a host's own credentials count
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.ForceServerCodecV2(newCodec()),
		experimental.BufferPool(s.pool),
		grpc.ReadBufferSize(socketBuffer),
		grpc.WriteBufferSize(socketBuffer),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
	)...)
}

// stop takes no more calls, ends those that never end by themselves, gives the others their time, and cuts off what is
// left.
func (s *server) stop(server *grpc.Server) {
	s.calls.close()
	s.endLife()
	ctx, cancel := context.WithTimeout(context.Background(), s.grace)
	defer cancel()
	if !s.calls.wait(ctx) {
		server.Stop()
		return
	}
	// The last answers may still be on their way. Streams that are not ours, such as go-plugin's own, never end.
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		server.GracefulStop()
	}()
	cut := time.AfterFunc(stopTime, server.Stop)
	defer cut.Stop()
	<-sent
}

// close ends what is left after the gRPC server was stopped. Calls that do not heed their context are left behind.
func (s *server) close() error {
	s.calls.close()
	s.endLife()
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if !s.calls.wait(ctx) {
		s.log.Warn("calls are still running at the end; they ignore their context")
		return nil
	}
	s.readers.Wait()
	return s.handles.close()
}

func (s *server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	s.begin()
	if !strings.HasPrefix(info.FullMethod, servicePrefix) {
		return next(ctx, req)
	}
	err = s.guard(ctx, info.FullMethod, func() error {
		resp, err = next(ctx, req)
		return err
	})
	return resp, err
}

func (s *server) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	s.begin()
	if !strings.HasPrefix(info.FullMethod, servicePrefix) {
		return next(srv, stream)
	}
	return s.guard(stream.Context(), info.FullMethod, func() error { return next(srv, stream) })
}

// guard runs one call: counted, with panics caught, and its error made fit for the wire.
func (s *server) guard(ctx context.Context, method string, call func() error) (err error) {
	if !s.calls.enter() {
		return toStatus(ctx, errEnding())
	}
	defer s.calls.leave()
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		s.log.Error("panic in a method of the plugin", "method", method, "panic", v, "stack", string(debug.Stack()))
		err = toStatus(ctx, &sdk.Error{Class: sdk.Internal, Reason: sdk.ReasonPanic,
			Message: "the plugin panicked in " + method + "; its log has the stack"})
	}()
	err = call()
	if err != nil && s.life.Err() != nil && sdk.ClassOf(err) == "" && ctx.Err() == nil {
		err = errEnding() // cut short by our own end, not by the caller
	}
	return toStatus(ctx, err)
}

func errEnding() error {
	return &sdk.Error{Class: sdk.Unavailable, Reason: sdk.ReasonPluginGone, Message: "the plugin is ending"}
}

// endless gives the context of a call that only its caller or the server's end finishes.
func (s *server) endless(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

func (s *server) opened() (sdk.Runtime, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runtime == nil {
		return nil, &sdk.Error{Class: sdk.FailedPrecondition, Message: "the plugin is not configured; call Configure first"}
	}
	return s.runtime, nil
}

// worker gives the named worker until release is called.
func (s *server) worker(name string) (sdk.Worker, func(), error) {
	rt, err := s.opened()
	if err != nil {
		return nil, nil, err
	}
	return s.handles.acquire(rt, name)
}
