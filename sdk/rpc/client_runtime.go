package rpc

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// runtime is the client as an sdk.Runtime.
type runtime Client

// receive makes a call that answers with a stream and gives each message to each, whose error ends the call and is
// returned unchanged.
func receive[Req proto.Message, M any](ctx context.Context, c *Client,
	method func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[M], error), request Req, each func(*M) error) error {
	if err := checkSize(request); err != nil {
		return err
	}
	callCtx, end := c.call(ctx)
	defer end()
	stream, err := method(callCtx, request)
	if err != nil {
		return c.fail(ctx, err, request)
	}
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return c.fail(ctx, err, request)
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

// Workers implements [sdk.Runtime].
func (r *runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	c := (*Client)(r)
	var event sdk.WorkerEvent
	told := bound{what: "Workers", maxRows: sdk.MaxWorkers}
	return receive(ctx, c, c.plugin.Workers, &pb.WorkersRequest{}, func(m *pb.WorkersResponse) error {
		if err := told.take(m, len(m.Workers)); err != nil {
			return err
		}
		event.Kind = fromPB(eventKinds(), m.Kind)
		for _, w := range m.Workers {
			event.Workers = append(event.Workers, workerFromPB(w))
		}
		if m.More || event.Kind == 0 {
			return nil // more to come, or of a kind that a newer plugin knows
		}
		whole := event
		event, told.rows, told.bytes = sdk.WorkerEvent{}, 0, 0
		return emit(whole)
	})
}

// Worker implements [sdk.Runtime].
func (r *runtime) Worker(name string) (sdk.Worker, error) {
	return &worker{c: (*Client)(r), name: name}, nil
}
