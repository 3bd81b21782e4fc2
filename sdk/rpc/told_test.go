package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// talker is a plugin that says what it likes.
type talker struct {
	pb.UnimplementedPluginServer
	pb.UnimplementedWorkerServer
	workers func(grpc.ServerStreamingServer[pb.WorkersResponse]) error
	status  func() (*pb.StatusResponse, error)
}

func (p *talker) Workers(_ *pb.WorkersRequest, s grpc.ServerStreamingServer[pb.WorkersResponse]) error {
	return p.workers(s)
}

func (p *talker) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return p.status()
}

// dialled connects to a talker.
func dialled(t *testing.T, p *talker) sdk.Runtime {
	t.Helper()
	server := grpc.NewServer()
	pb.RegisterPluginServer(server, p)
	pb.RegisterWorkerServer(server, p)
	lis := listen(t)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	c, err := rpc.Dial(t.Context(), lis.Addr(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := c.Close()
		server.Stop()
		if err := errors.Join(err, <-served); err != nil {
			t.Error(err)
		}
	})
	return c.Runtime()
}

// TestWordsOfErrorsAreBounded: however much a plugin says of an error, a host keeps little of it, and the class where that can be told.
func TestWordsOfErrorsAreBounded(t *testing.T) {
	p := &talker{}
	w, err := dialled(t, p).Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 20<<10)
	detailed, err := status.New(codes.NotFound, "short").WithDetails(&pb.Error{ErrorClass: pb.Class_CLASS_NOT_FOUND, Kind: long, Reason: "because", Message: long})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		said error
		want sdk.Class
	}{
		"a status":              {status.Error(codes.NotFound, long), sdk.NotFound},
		"a status of no class":  {status.Error(codes.Aborted, long), sdk.Internal},
		"a detail":              {detailed.Err(), sdk.NotFound},
		"beyond what is read":   {status.Error(codes.NotFound, strings.Repeat(long, 100)), sdk.Internal},
		"short after all those": {status.Error(codes.NotFound, "short"), sdk.NotFound},
	} {
		p.status = func() (*pb.StatusResponse, error) { return nil, c.said }
		_, err := w.Status(t.Context())
		e, ok := errors.AsType[*sdk.Error](err)
		if !ok || e.Class != c.want {
			t.Errorf("%s: %.200v, want %s", name, err, c.want)
			continue
		}
		if kept := len(e.Error()) + len(e.Kind) + len(e.ID) + len(e.Reason); kept > 16<<10 {
			t.Errorf("%s: %d bytes are kept", name, kept)
		}
	}
}

// TestToldIsBounded: what a plugin tells of its workers, and of how they are, is kept as long as it comes to little in all, in however many pieces it is told.
func TestToldIsBounded(t *testing.T) {
	const many = 40
	big := map[string]string{"a": strings.Repeat("x", 1<<20)}
	for name, c := range map[string]struct {
		event func(i int) *pb.WorkersResponse
		fails bool
	}{
		"each another one": {func(i int) *pb.WorkersResponse {
			return &pb.WorkersResponse{Kind: pb.WorkerEventKind_WORKER_EVENT_KIND_UPSERT, Workers: []*pb.WorkerInfo{{Name: fmt.Sprint("w", i), Attributes: big}}}
		}, true},
		"the same again": {func(int) *pb.WorkersResponse {
			return &pb.WorkersResponse{Kind: pb.WorkerEventKind_WORKER_EVENT_KIND_UPSERT, Workers: []*pb.WorkerInfo{{Name: "w", Attributes: big}}}
		}, false},
		"each removed": {func(i int) *pb.WorkersResponse {
			kind := []pb.WorkerEventKind{pb.WorkerEventKind_WORKER_EVENT_KIND_UPSERT, pb.WorkerEventKind_WORKER_EVENT_KIND_REMOVE}[i%2]
			return &pb.WorkersResponse{Kind: kind, Workers: []*pb.WorkerInfo{{Name: fmt.Sprint("w", i/2), Attributes: big}}}
		}, false},
		"all told anew": {func(i int) *pb.WorkersResponse {
			return &pb.WorkersResponse{Kind: pb.WorkerEventKind_WORKER_EVENT_KIND_SNAPSHOT, Workers: []*pb.WorkerInfo{{Name: fmt.Sprint("w", i), Attributes: big}}}
		}, false},
		"of a kind that nobody knows": {func(i int) *pb.WorkersResponse {
			return &pb.WorkersResponse{Kind: 77, Workers: []*pb.WorkerInfo{{Name: fmt.Sprint("w", i)}}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &talker{workers: func(s grpc.ServerStreamingServer[pb.WorkersResponse]) error {
				for i := range 2 * many {
					if err := s.Send(c.event(i)); err != nil {
						return err
					}
				}
				return nil
			}}
			events := 0
			err := dialled(t, p).Workers(testkit.Context(t), func(e sdk.WorkerEvent) error {
				events++
				if len(e.Workers) != 1 {
					t.Errorf("an event has %d workers", len(e.Workers))
				}
				return nil
			})
			if c.fails != errors.Is(err, sdk.Internal) || !c.fails && err != nil {
				t.Errorf("after %d events: %v", events, err)
			}
		})
	}
	t.Run("how they are", func(t *testing.T) {
		p := &talker{status: func() (*pb.StatusResponse, error) {
			return &pb.StatusResponse{Reason: strings.Repeat("x", 1<<20)}, nil
		}}
		rt := dialled(t, p)
		ask := func(name string) error {
			w, err := rt.Worker(name)
			if err == nil {
				_, err = w.Status(testkit.Context(t))
			}
			return err
		}
		var err error
		for i := 0; i < many && err == nil; i++ {
			if err = ask("same"); err == nil {
				err = ask(fmt.Sprint("w", i))
			}
		}
		if !errors.Is(err, sdk.Internal) {
			t.Errorf("%d workers were told at such length: %v", many, err)
		}
		if err := ask("same"); err != nil {
			t.Errorf("one that is kept already: %v", err)
		}
	})
}
