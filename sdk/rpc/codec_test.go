package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/internal/testkit"
	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

func TestAChunkOnTheWireIsAStockMessage(t *testing.T) {
	for _, n := range []int{1, 127, 128, 20_000, chunkSize} {
		p := bytes.Repeat([]byte("chunk"), n/5+1)[:n]
		got, err := newCodec().Marshal(&outgoing{mem.SliceBuffer(p)})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []proto.Message{
			&pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: p}},
			&pb.StreamOutResponse{Frame: &pb.StreamOutResponse_Data{Data: p}},
			&pb.ReadFileResponse{Frame: &pb.ReadFileResponse_Data{Data: p}},
		} {
			want, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Materialize(), want) {
				t.Errorf("%d bytes in a %T differ from gRPC's own", n, m)
			}
		}
	}
}

// FuzzUnmarshal compares the codec with gRPC's own: both give the same frame, or both fail. The message comes in pieces, as
// from the wire, and everything is freed once.
func FuzzUnmarshal(f *testing.F) {
	whole := func(m *pb.StreamInRequest, more ...byte) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return append(b, more...)
	}
	data := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: bytes.Repeat([]byte("0123456789"), 500)}}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7)
	f.Add([]byte(nil), uint16(0))
	f.Add(whole(data), uint16(0))
	f.Add(whole(data), uint16(1))
	f.Add(whole(data), uint16(2000))
	f.Add(whole(data, unknown...), uint16(100))
	f.Add(append(bytes.Clone(unknown), whole(data)...), uint16(100))
	f.Add(whole(data)[:4000], uint16(3))                 // longer than it is
	f.Add(whole(data, whole(data)...), uint16(3))        // the last one counts
	f.Add(whole(data, 0x12, 2, 8, 9), uint16(5))         // and so does a trailer
	f.Add([]byte{chunkTag, 0}, uint16(1))                // empty
	f.Add([]byte{chunkTag}, uint16(1))                   // without a length
	f.Add([]byte{chunkTag, 0x81, 0, 'x'}, uint16(1))     // a length in more bytes than need be
	f.Add([]byte{chunkTag | 0x80, 0, 1, 'x'}, uint16(1)) // a tag in more bytes than need be
	f.Add(append([]byte{chunkTag}, bytes.Repeat([]byte{0xff}, 11)...), uint16(4))
	f.Add(whole(&pb.StreamInRequest{Frame: &pb.StreamInRequest_Abort{Abort: &pb.Abort{Message: "why"}}}), uint16(2))
	f.Fuzz(func(t *testing.T, in []byte, size uint16) {
		var want pb.StreamInRequest
		bad := proto.Unmarshal(in, &want)

		pool := newCheckedPool(t)
		var pieces mem.BufferSlice
		for rest := in; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			pieces = append(pieces, mem.Copy(rest[:n], pool))
			rest = rest[n:]
		}
		var other pb.StreamInRequest
		got := incoming{other: &other}
		err := newCodec().Unmarshal(pieces, &got)
		pieces.Free() // as gRPC does
		if (err != nil) != (bad != nil) {
			t.Fatalf("got %v, gRPC's own gives %v", err, bad)
		}
		switch {
		case err != nil:
		case got.chunk:
			if _, is := want.Frame.(*pb.StreamInRequest_Data); !is || !bytes.Equal(got.bytes.Materialize(), want.GetData()) || len(want.ProtoReflect().GetUnknown()) > 0 {
				t.Fatalf("got a chunk of %d bytes for %v", got.bytes.Len(), &want)
			}
			got.bytes.Free()
		case !proto.Equal(&other, &want):
			t.Fatalf("got %v, want %v", &other, &want)
		}
		if err := pool.await(); err != nil {
			t.Fatal(err)
		}
	})
}

// echo is a worker with one volume, which holds what came in last.
type echo struct {
	sdk.Worker
	mu    sync.Mutex
	bytes []byte
	take  func(io.Reader) ([]byte, error)
}

// echoes is a runtime of one echo.
type echoes struct{ *echo }

func (e echoes) Workers(context.Context, func(sdk.WorkerEvent) error) error { return nil }
func (e echoes) Worker(string) (sdk.Worker, error)                          { return e.echo, nil }

func (e *echo) Close() error { return nil }

func (e *echo) StreamIn(_ context.Context, _ sdk.VolumeID, _ sdk.StreamIn, r io.Reader) error {
	p, err := e.take(r)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes = p
	return err
}

func (e *echo) StreamOut(_ context.Context, _ sdk.VolumeID, _ sdk.StreamOut, w io.Writer) error {
	e.mu.Lock()
	p := e.bytes
	e.mu.Unlock()
	// In pieces of all sizes, of which none may be looked at after its Write.
	piece := make([]byte, 0, 2*chunkSize)
	for n := 0; len(p) > 0; n = (n*3 + 1) % (2 * chunkSize) {
		piece = append(piece[:0], p[:min(len(p), n+1)]...)
		if _, err := w.Write(piece); err != nil {
			return err
		}
		p = p[len(piece):]
		clear(piece)
	}
	return nil
}

func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(p) // never fails
	return p
}

// checkedPair joins a worker and its user as rpctest.Pair does, with checked pools. end closes both and wants all buffers back, if
// every stream ended in order: what lies in the queues of a stream that was broken off is left to the garbage collector by
// gRPC.
func checkedPair(t *testing.T, rt sdk.Runtime) (w sdk.Worker, end func(inOrder bool)) {
	t.Helper()
	near, far := newCheckedPool(t), newCheckedPool(t)
	lis := listenOn(t, socket(t))
	s := newServer(sdk.PluginInfo{}, slog.New(slog.DiscardHandler))
	s.configured, s.runtime, s.pool = true, rt, far
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.serveOn(ctx, lis) }()
	client, err := dial(lis.Addr(), DialOptions{}, near)
	if err != nil {
		t.Fatal(err)
	}
	w, err = client.Runtime().Worker("w")
	if err != nil {
		t.Fatal(err)
	}
	return w, func(inOrder bool) {
		if inOrder {
			if err := errors.Join(near.await(), far.await()); err != nil {
				t.Error(err)
			}
		}
		cancel()
		if err := errors.Join(client.Close(), <-served); err != nil {
			t.Error(err)
		}
	}
}

func TestBuffersAreFreedOnce(t *testing.T) {
	want := noise(testkit.Times(2, 9)<<20 + 12345) // many chunks, and a part of one
	w, end := checkedPair(t, echoes{&echo{take: io.ReadAll}})
	for name, r := range map[string]func() io.Reader{
		"in large pieces": func() io.Reader { return bytes.NewReader(want) },
		"in small pieces": func() io.Reader { return &pieces{r: bytes.NewReader(want), max: 700} },
		"in mixed pieces": func() io.Reader { return &pieces{r: bytes.NewReader(want), max: 100_000} },
	} {
		var streams sync.WaitGroup
		for range 3 {
			streams.Go(func() {
				if err := w.StreamIn(t.Context(), "v", sdk.StreamIn{}, r()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				var got bytes.Buffer
				if err := w.StreamOut(t.Context(), "v", sdk.StreamOut{}, struct{ io.Writer }{&got}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%s: %d bytes came back, changed", name, got.Len())
				}
			})
		}
		streams.Wait()
	}
	end(true)
}

// pieces gives other amounts than it is asked for.
type pieces struct {
	r   io.Reader
	max int
	n   int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.n = (p.n*31 + 17) % p.max
	return p.r.Read(b[:min(len(b), p.n+1)])
}

func TestBuffersOfBrokenStreams(t *testing.T) {
	enough := errors.New("enough")
	data := noise(3 << 20)
	var late sync.WaitGroup
	for name, take := range map[string]func(io.Reader) ([]byte, error){
		"fails at once": func(io.Reader) ([]byte, error) { return data, enough },
		"fails amid a chunk": func(r io.Reader) ([]byte, error) {
			_, err := io.ReadFull(r, make([]byte, 100_001))
			return data, errors.Join(enough, err)
		},
		"reads after its end": func(r io.Reader) ([]byte, error) {
			_, err := io.ReadFull(r, make([]byte, 5))
			late.Go(func() {
				got, err := io.ReadAll(r)
				if err == nil || !bytes.HasPrefix(data[5:], got) {
					t.Errorf("read %d bytes, which are not what was sent or all of it, and %v", len(got), err)
				}
			})
			return data, errors.Join(enough, err)
		},
	} {
		w, end := checkedPair(t, echoes{&echo{bytes: data, take: take}}) // one each, for what was cancelled may be read yet
		for range 10 {
			if err := w.StreamIn(t.Context(), "v", sdk.StreamIn{}, bytes.NewReader(data)); err == nil {
				t.Errorf("%s: no error", name)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if err := w.StreamIn(ctx, "v", sdk.StreamIn{}, readerFunc(func(p []byte) (int, error) { cancel(); return copy(p, data), nil })); err == nil {
				t.Errorf("%s: cancelled, without an error", name)
			}
			left := 3
			if err := w.StreamOut(t.Context(), "v", sdk.StreamOut{}, writerFunc(func(p []byte) (int, error) {
				if left--; left < 0 {
					return 0, enough
				}
				return len(p), nil
			})); err != enough {
				t.Errorf("%s: StreamOut gave %v", name, err)
			}
		}
		end(false) // only then has every call begun to read late that ever will: one that was cancelled may still be on its way
		late.Wait()
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestStockPeers lets either side be one that knows nothing of our codec.
func TestStockPeers(t *testing.T) {
	want := noise(3<<20 + 1)
	t.Run("client", func(t *testing.T) {
		lis := listenOn(t, socket(t))
		s := newServer(sdk.PluginInfo{}, slog.New(slog.DiscardHandler))
		s.configured, s.runtime = true, echoes{&echo{take: io.ReadAll}}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- s.serveOn(ctx, lis) }()
		defer func() {
			cancel()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		conn, err := grpc.NewClient("unix:"+lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		in, err := pb.NewDataClient(conn).StreamIn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stockSend(want, func(m *pb.StreamInRequest) error { return in.Send(m) }); err != nil {
			t.Fatal(err)
		}
		if _, err := in.CloseAndRecv(); err != nil {
			t.Fatal(err)
		}
		out, err := pb.NewDataClient(conn).StreamOut(t.Context(), &pb.StreamOutRequest{Worker: "w", Volume: "v"})
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for {
			m, err := out.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.GetData()...)
			if tr := m.GetTrailer(); tr != nil && tr.Bytes != int64(len(want)) {
				t.Errorf("the trailer tells %d bytes", tr.Bytes)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back, changed", len(got))
		}
	})
	t.Run("server", func(t *testing.T) {
		lis := listenOn(t, socket(t))
		server := grpc.NewServer()
		stock := &stockServer{}
		pb.RegisterDataServer(server, stock)
		served := make(chan error, 1)
		go func() { served <- server.Serve(lis) }()
		defer func() {
			server.Stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}()
		pool := newCheckedPool(t)
		client, err := dial(lis.Addr(), DialOptions{}, pool)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		w, err := client.Runtime().Worker("w")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.StreamIn(t.Context(), "v", sdk.StreamIn{}, bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stock.bytes, want) {
			t.Errorf("%d bytes arrived, changed", len(stock.bytes))
		}
		var got bytes.Buffer
		if err := w.StreamOut(t.Context(), "v", sdk.StreamOut{}, &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%d bytes came back, changed", got.Len())
		}
		if err := pool.await(); err != nil {
			t.Error(err)
		}
	})
}

// stockSend sends a header, chunks of odd sizes, some with a field that only a newer peer knows, and a trailer.
func stockSend(p []byte, send func(*pb.StreamInRequest) error) error {
	sum := newSum()
	sum.add(p)
	err := send(&pb.StreamInRequest{Frame: &pb.StreamInRequest_Header{Header: &pb.StreamInHeader{Worker: "w", Volume: "v"}}})
	for i := 0; len(p) > 0 && err == nil; i++ {
		n := min(len(p), 77_777*i%maxChunkSize)
		m := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: p[:n]}}
		if i%2 == 0 {
			m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 7))
		}
		err = send(m)
		p = p[n:]
	}
	if err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return send(&pb.StreamInRequest{Frame: &pb.StreamInRequest_Trailer{Trailer: sum.trailer()}})
}

// stockServer is a server of gRPC's own kind, which keeps one stream.
type stockServer struct {
	pb.UnimplementedDataServer
	bytes []byte
}

func (s *stockServer) StreamIn(stream grpc.ClientStreamingServer[pb.StreamInRequest, pb.StreamInResponse]) error {
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&pb.StreamInResponse{})
		}
		if err != nil {
			return err
		}
		s.bytes = append(s.bytes, m.GetData()...)
	}
}

func (s *stockServer) StreamOut(_ *pb.StreamOutRequest, stream grpc.ServerStreamingServer[pb.StreamOutResponse]) error {
	return stockSend(s.bytes, func(m *pb.StreamInRequest) error {
		if m.GetHeader() != nil {
			return nil
		}
		out := &pb.StreamOutResponse{}
		b, err := proto.Marshal(m)
		if err == nil {
			err = proto.Unmarshal(b, out) // the same fields under the same numbers
		}
		if err != nil {
			return err
		}
		return stream.Send(out)
	})
}
