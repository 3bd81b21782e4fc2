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
		event.Kind = fromPB(eventKinds(), m.Kind)
		if event.Kind == sdk.WorkerSnapshot && told.rows == 0 { // its first message: it is all that there is
			c.told.clear()
		}
		if err := told.take(m, len(m.Workers)); err != nil {
			return err
		}
		for _, w := range m.Workers {
			if len(w.Name) > maxErrorText {
				return sdk.NewInternal(nil, "the plugin tells a worker whose name has %d bytes", len(w.Name))
			}
			switch event.Kind {
			case sdk.WorkerRemove:
				c.told.drop(infoKey(w.Name), statusKey(w.Name))
			case sdk.WorkerSnapshot, sdk.WorkerUpsert:
				if err := c.told.put(infoKey(w.Name), w); err != nil {
					return err
				}
			}
			event.Workers = append(event.Workers, workerFromPB(w))
		}
		if m.More {
			return nil
		}
		whole := event
		event, told.rows, told.bytes = sdk.WorkerEvent{}, 0, 0
		if whole.Kind == 0 { // a newer plugin's
			return nil
		}
		return emit(whole)
	})
}

// Worker implements [sdk.Runtime].
func (r *runtime) Worker(name string) (sdk.Worker, error) {
	return &worker{c: (*Client)(r), name: name}, nil
}
