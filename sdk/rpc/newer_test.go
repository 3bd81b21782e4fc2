package rpc_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
)

// newer gives a message with a field that this version does not know.
func newer[M proto.Message](m M) M {
	raw := protowire.AppendTag(nil, 4242, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(raw, []byte("from the future")))
	return m
}

func TestTokensUnderANewerProto(t *testing.T) {
	w, ctx := pb.NewWorkerClient(raw(t, testruntime.New("w"))), t.Context()
	create := func(token string) error {
		r := newer(&pb.CreateContainerRequest{Worker: "w", Id: "c", Token: token, Limits: newer(&pb.Resources{})})
		stream, err := w.CreateContainer(ctx, r)
		if err != nil {
			return err
		}
		for done := false; ; {
			m, err := stream.Recv()
			if err == io.EOF && done {
				return nil
			}
			if err != nil {
				return err
			}
			done = done || m.GetDone() != nil
		}
	}
	for _, token := range []string{"one", "one"} {
		if err := create(token); err != nil {
			t.Fatal(err)
		}
	}
	err := create("another")
	if got := detail(t, err); got.ErrorClass != pb.Class_CLASS_ALREADY_EXISTS || got.Id != "c" {
		t.Errorf("got %v", err)
	}
}

// newerServer is what a later version of a plugin looks like.
type newerServer struct {
	pb.UnimplementedPluginServer
	pb.UnimplementedWorkerServer
}

func (newerServer) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	return newer(&pb.InfoResponse{Name: "newer",
		PluginSchema: &pb.Schema{Fields: []*pb.Field{newer(&pb.Field{Name: "f", Type: 99})}}}), nil
}

func (newerServer) Workers(_ *pb.WorkersRequest, stream grpc.ServerStreamingServer[pb.WorkersResponse]) error {
	for _, m := range []*pb.WorkersResponse{{Kind: 77}, newer(&pb.WorkersResponse{Kind: pb.WorkerEventKind_WORKER_EVENT_KIND_SNAPSHOT,
		Workers: []*pb.WorkerInfo{newer(&pb.WorkerInfo{Name: "w"})}})} {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (newerServer) CreateContainer(_ *pb.CreateContainerRequest, stream grpc.ServerStreamingServer[pb.CreateContainerResponse]) error {
	for _, m := range []*pb.CreateContainerResponse{newer(&pb.CreateContainerResponse{}),
		{Event: &pb.CreateContainerResponse_Done{Done: newer(&pb.CreateContainerDone{})}}} {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (newerServer) SealVolume(context.Context, *pb.SealVolumeRequest) (*pb.SealVolumeResponse, error) {
	s, err := status.New(codes.FailedPrecondition, "not now").WithDetails(newer(&pb.Error{ErrorClass: pb.Class_CLASS_FAILED_PRECONDITION, Reason: "reason-of-tomorrow"}))
	if err != nil {
		return nil, err
	}
	return nil, s.Err()
}

// DestroyVolume answers as a plugin in another language may, with a bare code.
func (newerServer) DestroyVolume(context.Context, *pb.DestroyVolumeRequest) (*pb.DestroyVolumeResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, "bare")
}

func TestNewerServer(t *testing.T) {
	c := client(t, func(r grpc.ServiceRegistrar) {
		pb.RegisterPluginServer(r, newerServer{})
		pb.RegisterWorkerServer(r, newerServer{})
	})
	ctx := t.Context()
	info, err := c.Info(ctx, sdk.HostInfo{})
	if err != nil || info.Name != "newer" || len(info.PluginSchema.Fields) != 1 {
		t.Errorf("got %+v, %v", info, err)
	}
	var events []sdk.WorkerEvent
	if err := c.Runtime().Workers(ctx, func(e sdk.WorkerEvent) error { events = append(events, e); return nil }); err != nil {
		t.Error(err)
	}
	if len(events) != 1 || events[0].Kind != sdk.WorkerSnapshot || events[0].Workers[0].Name != "w" {
		t.Errorf("got %+v", events)
	}
	w, _ := c.Runtime().Worker("w")
	if err := w.CreateContainer(ctx, sdk.ContainerSpec{ID: "c", Token: "t"}, nil); err != nil {
		t.Error(err)
	}
	if err := w.SealVolume(ctx, "v"); !errors.Is(err, sdk.FailedPrecondition) || !errors.Is(err, sdk.Reason("reason-of-tomorrow")) {
		t.Errorf("got %v", err)
	}
	if err := w.DestroyVolume(ctx, "v"); !errors.Is(err, sdk.FailedPrecondition) {
		t.Errorf("got %v", err)
	}
	// A method that an older plugin does not have at all.
	if _, err := w.(sdk.FileReader).StatFile(ctx, "v", "f"); !errors.Is(err, sdk.Unsupported) {
		t.Errorf("got %v", err)
	}
}

func TestCreateContainerWithoutDone(t *testing.T) {
	c := client(t, func(r grpc.ServiceRegistrar) { pb.RegisterWorkerServer(r, silentServer{}) })
	w, _ := c.Runtime().Worker("w")
	if err := w.CreateContainer(t.Context(), sdk.ContainerSpec{ID: "c", Token: "t"}, nil); !errors.Is(err, sdk.Internal) {
		t.Errorf("got %v", err)
	}
}

type silentServer struct{ pb.UnimplementedWorkerServer }

func (silentServer) CreateContainer(*pb.CreateContainerRequest, grpc.ServerStreamingServer[pb.CreateContainerResponse]) error {
	return nil
}
