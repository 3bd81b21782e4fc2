package rpc_test

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/rpc"
	"github.com/slipway-run/slipway/sdk/rpc/internal/testruntime"
)

func listen(t testing.TB) net.Listener {
	t.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

// raw serves a runtime and gives a connection that sends whatever a test likes.
func raw(t *testing.T, rt sdk.Runtime) *grpc.ClientConn {
	t.Helper()
	lis := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rpc.ServeOn(ctx, lis, sdk.PluginInfo{}, rt, rpc.ServeOptions{}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	conn, err := grpc.NewClient("unix:"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// detail gives the contract's error out of what the server answered.
func detail(t *testing.T, err error) *pb.Error {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*pb.Error); ok {
			return e
		}
	}
	t.Fatalf("%v has no detail", err)
	return nil
}

func streamInFrames(t *testing.T, conn *grpc.ClientConn, frames ...*pb.StreamInRequest) error {
	t.Helper()
	stream, err := pb.NewDataClient(conn).StreamIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := stream.Send(f); err != nil && err != io.EOF {
			t.Fatal(err)
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

func TestStreamInThatIsNotWhole(t *testing.T) {
	header := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Header{Header: &pb.StreamInHeader{Worker: "w", Volume: "v"}}}
	data := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: []byte("data")}}
	huge := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: make([]byte, 1<<20+1)}}
	trailer := func(n int64, sum uint32) *pb.StreamInRequest {
		return &pb.StreamInRequest{Frame: &pb.StreamInRequest_Trailer{Trailer: &pb.Trailer{Bytes: n, Crc32C: proto.Uint32(sum)}}}
	}
	sum := crc32.Checksum([]byte("data"), crc32.MakeTable(crc32.Castagnoli))
	newer := &pb.StreamInRequest{} // a frame that this version does not know
	for name, c := range map[string]struct {
		frames []*pb.StreamInRequest
		want   pb.Class // unspecified: success
	}{
		"whole":            {[]*pb.StreamInRequest{header, data, trailer(4, sum)}, 0},
		"whole, and newer": {[]*pb.StreamInRequest{header, newer, data, newer, trailer(4, sum)}, 0},
		"no checksum": {[]*pb.StreamInRequest{header, data,
			{Frame: &pb.StreamInRequest_Trailer{Trailer: &pb.Trailer{Bytes: 4}}}}, 0},
		"no trailer":      {[]*pb.StreamInRequest{header, data}, pb.Class_CLASS_INTERNAL},
		"wrong checksum":  {[]*pb.StreamInRequest{header, data, trailer(4, sum+1)}, pb.Class_CLASS_INTERNAL},
		"wrong length":    {[]*pb.StreamInRequest{header, data, trailer(5, sum)}, pb.Class_CLASS_INTERNAL},
		"chunk too large": {[]*pb.StreamInRequest{header, huge}, pb.Class_CLASS_INTERNAL},
		"no header":       {[]*pb.StreamInRequest{data}, pb.Class_CLASS_INVALID},
		"nothing":         {nil, pb.Class_CLASS_INVALID},
	} {
		t.Run(name, func(t *testing.T) {
			rt := testruntime.New("w")
			w, _ := rt.Worker("w")
			if err := w.CreateVolume(t.Context(), sdk.VolumeSpec{ID: "v", Token: "t"}); err != nil {
				t.Fatal(err)
			}
			err := streamInFrames(t, raw(t, rt), c.frames...)
			if c.want == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if got := detail(t, err).ErrorClass; got != c.want {
				t.Errorf("got %v: %v", got, err)
			}
		})
	}
}

// badServer answers StreamOut and FollowProcess with what a test gives.
type badServer struct {
	pb.UnimplementedDataServer
	frames  []*pb.StreamOutResponse
	follows []*pb.FollowProcessResponse
}

func (s *badServer) FollowProcess(stream grpc.BidiStreamingServer[pb.FollowProcessRequest, pb.FollowProcessResponse]) error {
	for _, f := range s.follows {
		if err := stream.Send(f); err != nil {
			return err
		}
	}
	return nil
}

func (s *badServer) StreamOut(_ *pb.StreamOutRequest, stream grpc.ServerStreamingServer[pb.StreamOutResponse]) error {
	for _, f := range s.frames {
		if err := stream.Send(f); err != nil {
			return err
		}
	}
	return nil
}

// client dials a server that is not ours.
func client(t *testing.T, register func(grpc.ServiceRegistrar)) *rpc.Client {
	t.Helper()
	lis := listen(t)
	server := grpc.NewServer()
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	t.Cleanup(func() {
		server.Stop()
		<-served
	})
	c, err := rpc.Dial(t.Context(), lis.Addr(), rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestStreamOutThatIsNotWhole(t *testing.T) {
	data := &pb.StreamOutResponse{Frame: &pb.StreamOutResponse_Data{Data: []byte("data")}}
	trailer := func(n int64, sum uint32) *pb.StreamOutResponse {
		return &pb.StreamOutResponse{Frame: &pb.StreamOutResponse_Trailer{Trailer: &pb.Trailer{Bytes: n, Crc32C: proto.Uint32(sum)}}}
	}
	sum := crc32.Checksum([]byte("data"), crc32.MakeTable(crc32.Castagnoli))
	for name, c := range map[string]struct {
		frames []*pb.StreamOutResponse
		whole  bool
	}{
		"whole": {[]*pb.StreamOutResponse{data, trailer(4, sum)}, true},
		"no checksum": {[]*pb.StreamOutResponse{data,
			{Frame: &pb.StreamOutResponse_Trailer{Trailer: &pb.Trailer{Bytes: 4}}}}, true},
		"no trailer":         {[]*pb.StreamOutResponse{data}, false},
		"nothing":            {nil, false},
		"wrong checksum":     {[]*pb.StreamOutResponse{data, trailer(4, sum+1)}, false},
		"wrong length":       {[]*pb.StreamOutResponse{data, trailer(3, sum)}, false},
		"more after trailer": {[]*pb.StreamOutResponse{data, trailer(4, sum), data}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c0 := client(t, func(r grpc.ServiceRegistrar) { pb.RegisterDataServer(r, &badServer{frames: c.frames}) })
			w, _ := c0.Runtime().Worker("w")
			err := w.StreamOut(t.Context(), "v", sdk.StreamOut{}, io.Discard)
			if c.whole && err != nil || !c.whole && !errors.Is(err, sdk.Internal) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestFollowThatIsNotOpened: the error names the frame, for whoever writes a plugin looks for it in the published files.
func TestFollowThatIsNotOpened(t *testing.T) {
	opened := &pb.FollowProcessResponse{Frame: &pb.FollowProcessResponse_Opened{Opened: &pb.Opened{}}}
	for name, c := range map[string]struct {
		frames []*pb.FollowProcessResponse
		says   string
	}{
		"nothing": {nil, `ended FollowProcess with OK before its first frame, which is "opened"`},
		"exit first": {[]*pb.FollowProcessResponse{{Frame: &pb.FollowProcessResponse_Exit{Exit: &pb.Exit{}}}, opened},
			`the first frame of the plugin's FollowProcess is "exit", want "opened"`},
		"no frame": {[]*pb.FollowProcessResponse{{}}, `the first frame of the plugin's FollowProcess is none that this version knows, want "opened"`},
		"twice":    {[]*pb.FollowProcessResponse{opened, opened}, `the plugin's FollowProcess has the frame "opened" twice`},
	} {
		t.Run(name, func(t *testing.T) {
			c0 := client(t, func(r grpc.ServiceRegistrar) { pb.RegisterDataServer(r, &badServer{follows: c.frames}) })
			w, _ := c0.Runtime().Worker("w")
			if err := w.FollowProcess(t.Context(), "c", "p", 0, sdk.Follow{}); !errors.Is(err, sdk.Internal) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestServerChecksIdsAndSpecs(t *testing.T) {
	r := &recorder{}
	conn := raw(t, r)
	w, d, ctx := pb.NewWorkerClient(conn), pb.NewDataClient(conn), t.Context()
	discard := func(stream interface{ RecvMsg(any) error }, m proto.Message, err error) error {
		for err == nil {
			err = stream.RecvMsg(m)
		}
		return err
	}
	bad := "Not/An-Id"
	for name, call := range map[string]func() error{
		"CreateVolume id": func() error { _, err := w.CreateVolume(ctx, &pb.CreateVolumeRequest{Id: bad, Token: "t"}); return err },
		"CreateVolume token": func() error {
			_, err := w.CreateVolume(ctx, &pb.CreateVolumeRequest{Id: "v", Token: "a b"})
			return err
		},
		"SealVolume":    func() error { _, err := w.SealVolume(ctx, &pb.SealVolumeRequest{Id: bad}); return err },
		"DestroyVolume": func() error { _, err := w.DestroyVolume(ctx, &pb.DestroyVolumeRequest{Id: bad}); return err },
		"CreateContainer": func() error {
			s, err := w.CreateContainer(ctx, &pb.CreateContainerRequest{Id: "c", Token: "t", Dir: []byte("../up")})
			return discard(s, &pb.CreateContainerResponse{}, err)
		},
		"DestroyContainer": func() error { _, err := w.DestroyContainer(ctx, &pb.DestroyContainerRequest{Id: bad}); return err },
		"StartProcess container": func() error {
			_, err := w.StartProcess(ctx, &pb.StartProcessRequest{Container: bad, Id: "p", Token: "t", Path: []byte("x")})
			return err
		},
		"StartProcess policy": func() error {
			_, err := w.StartProcess(ctx, &pb.StartProcessRequest{Container: "c", Id: "p", Token: "t", Path: []byte("x"), WhenFull: 77})
			return err
		},
		"StartProcess terminal": func() error {
			_, err := w.StartProcess(ctx, &pb.StartProcessRequest{Container: "c", Id: "p", Token: "t", Path: []byte("x"),
				Tty: &pb.TerminalSize{Rows: 1 << 16}})
			return err
		},
		"ListProcesses": func() error {
			s, err := w.ListProcesses(ctx, &pb.ListProcessesRequest{Container: bad})
			return discard(s, &pb.ListProcessesResponse{}, err)
		},
		"SignalProcess": func() error {
			_, err := w.SignalProcess(ctx, &pb.SignalProcessRequest{Container: "c", Process: bad, Signal: "TERM"})
			return err
		},
		"SignalProcess signal": func() error {
			_, err := w.SignalProcess(ctx, &pb.SignalProcessRequest{Container: "c", Process: "p", Signal: "SEGV"})
			return err
		},
		"ResizeProcess": func() error {
			_, err := w.ResizeProcess(ctx, &pb.ResizeProcessRequest{Container: "c", Process: bad})
			return err
		},
		"PeerTicket": func() error { _, err := w.PeerTicket(ctx, &pb.PeerTicketRequest{Volume: bad}); return err },
		"PeerSend": func() error {
			_, err := w.PeerSend(ctx, &pb.PeerSendRequest{Volume: "v", Ticket: &pb.PeerTicket{Data: make([]byte, 64<<10+1)}})
			return err
		},
		"StatFile": func() error { _, err := w.StatFile(ctx, &pb.StatFileRequest{Volume: bad}); return err },
		"ListFiles": func() error {
			s, err := w.ListFiles(ctx, &pb.ListFilesRequest{Volume: bad})
			return discard(s, &pb.ListFilesResponse{}, err)
		},
		"StreamOut": func() error {
			s, err := d.StreamOut(ctx, &pb.StreamOutRequest{Volume: bad})
			return discard(s, &pb.StreamOutResponse{}, err)
		},
		"ReadFile": func() error {
			s, err := d.ReadFile(ctx, &pb.ReadFileRequest{Volume: "v", Offset: -1})
			return discard(s, &pb.ReadFileResponse{}, err)
		},
		"StreamIn": func() error {
			return streamInFrames(t, conn, &pb.StreamInRequest{Frame: &pb.StreamInRequest_Header{Header: &pb.StreamInHeader{Volume: bad}}})
		},
		"FollowProcess": func() error {
			s, err := d.FollowProcess(ctx)
			if err == nil {
				err = s.Send(&pb.FollowProcessRequest{Frame: &pb.FollowProcessRequest_Header{Header: &pb.FollowHeader{Container: "c", Process: "p", Position: -1}}})
			}
			return discard(s, &pb.FollowProcessResponse{}, err)
		},
	} {
		err := call()
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if got := detail(t, err); got.ErrorClass != pb.Class_CLASS_INVALID || got.Reason == "" {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got := r.args(); got != nil {
		t.Errorf("the plugin saw a bad call: %v", got)
	}
}
