package rpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// batchBytes is about how large the messages of a list become.
const batchBytes = 64 << 10

func (s *server) Info(_ context.Context, r *pb.InfoRequest) (*pb.InfoResponse, error) {
	s.log.Debug("host says hello", "host_version", r.Version, "installation", r.Installation)
	return infoToPB(s.info), nil
}

func (s *server) Health(context.Context, *pb.HealthRequest) (*pb.HealthResponse, error) {
	return &pb.HealthResponse{}, nil
}

func (s *server) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if s.open == nil {
		return nil, &sdk.Error{Class: sdk.Unsupported, Message: "this server is configured by its own operator"}
	}
	s.mu.Lock()
	again := s.configured
	s.configured = true
	s.mu.Unlock()
	if again {
		return nil, &sdk.Error{Class: sdk.FailedPrecondition, Message: "the plugin was configured before; start a new one for other settings"}
	}
	cfg := sdk.Config{Plugin: blockFromPB(r.Plugin), Log: s.log}
	for _, b := range r.Workers {
		cfg.Workers = append(cfg.Workers, blockFromPB(b))
	}
	rt, err := s.open(s.life, cfg) // the runtime outlives this call
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runtime = sdk.Checked(rt)
	return &pb.ConfigureResponse{}, nil
}

func (s *server) Workers(_ *pb.WorkersRequest, stream grpc.ServerStreamingServer[pb.WorkersResponse]) error {
	rt, err := s.opened()
	if err != nil {
		return err
	}
	ctx, end := s.endless(stream.Context())
	defer end()
	out := newSender(stream.Send)
	defer out.close()
	return rt.Workers(ctx, func(event sdk.WorkerEvent) error {
		s.handles.observe(event)
		return sendEvent(out, event)
	})
}

// sendEvent cuts a snapshot that is too large for one message.
func sendEvent(out *sender[pb.WorkersResponse], event sdk.WorkerEvent) error {
	kind := toPB(eventKinds(), event.Kind)
	part, size := &pb.WorkersResponse{Kind: kind}, 0
	for _, w := range event.Workers {
		info := workerToPB(w)
		n := proto.Size(info)
		if size > 0 && size+n > batchBytes {
			part.More = true
			if err := out.send(part); err != nil {
				return err
			}
			part, size = &pb.WorkersResponse{Kind: kind}, 0
		}
		part.Workers = append(part.Workers, info)
		size += n
	}
	return out.send(part)
}

// sender keeps a plugin that calls back from several goroutines, or after its method returned, from breaking the stream.
type sender[M any] struct {
	mu     sync.Mutex
	closed bool
	to     func(*M) error
}

func newSender[M any](to func(*M) error) *sender[M] { return &sender[M]{to: to} }

func (s *sender[M]) send(m *M) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sdk.NewInternal(nil, "called back after the call had ended")
	}
	return s.to(m)
}

func (s *sender[M]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// batch gathers the items of a list into messages.
type batch[T proto.Message, M any] struct {
	out  *sender[M]
	wrap func([]T) *M

	mu    sync.Mutex
	items []T
	size  int
}

func (b *batch[T, M]) add(item T) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, item)
	b.size += proto.Size(item)
	if b.size < batchBytes {
		return nil
	}
	return b.flushLocked()
}

func (b *batch[T, M]) flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flushLocked()
}

func (b *batch[T, M]) flushLocked() error {
	if len(b.items) == 0 {
		return nil
	}
	m := b.wrap(b.items)
	b.items, b.size = nil, 0
	return b.out.send(m)
}
