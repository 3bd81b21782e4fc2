package rpc

import (
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

func (s *server) StreamIn(stream grpc.ClientStreamingServer[pb.StreamInRequest, pb.StreamInResponse]) error {
	first, err := stream.Recv()
	if err == io.EOF {
		return sdk.NewInvalid(sdk.ReasonSpec, "StreamIn: the stream has no header")
	}
	if err != nil {
		return err
	}
	h := first.GetHeader()
	if h == nil {
		return sdk.NewInvalid(sdk.ReasonSpec, "StreamIn: the stream does not begin with its header")
	}
	w, release, err := s.worker(h.Worker)
	if err != nil {
		return err
	}
	defer release()

	in := newChunkReader(receiver(stream, frameIn))
	defer in.close()
	err = w.StreamIn(stream.Context(), sdk.VolumeID(h.Volume), sdk.StreamIn{Path: string(h.Path), Encoding: h.Encoding}, in)
	if err == nil {
		err = in.drain()
	}
	if failure := in.failure(); failure != nil {
		return failure // whatever the plugin made of it
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(&pb.StreamInResponse{})
}

func (s *server) StreamOut(r *pb.StreamOutRequest, stream grpc.ServerStreamingServer[pb.StreamOutResponse]) error {
	w, release, err := s.worker(r.Worker)
	if err != nil {
		return err
	}
	defer release()

	out := newChunkWriter(s.pool, func(b mem.Buffer) error { return sendChunk(stream, b) })
	defer out.abandon(io.ErrClosedPipe)
	spec := sdk.StreamOut{Path: string(r.Path), Encoding: r.Encoding}
	if err := w.StreamOut(stream.Context(), sdk.VolumeID(r.Volume), spec, out); err != nil {
		return err
	}
	trailer, err := out.finish()
	if err != nil {
		return err
	}
	return stream.Send(&pb.StreamOutResponse{Frame: &pb.StreamOutResponse_Trailer{Trailer: trailer}})
}

func (s *server) ReadFile(r *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.ReadFileResponse]) error {
	w, release, err := s.worker(r.Worker)
	if err != nil {
		return err
	}
	defer release()

	out := newChunkWriter(s.pool, func(b mem.Buffer) error { return sendChunk(stream, b) })
	defer out.abandon(io.ErrClosedPipe)
	if err := w.(sdk.FileReader).ReadFile(stream.Context(), sdk.VolumeID(r.Volume), string(r.Path), r.Offset, r.Length, out); err != nil {
		return err
	}
	trailer, err := out.finish()
	if err != nil {
		return err
	}
	return stream.Send(&pb.ReadFileResponse{Frame: &pb.ReadFileResponse_Trailer{Trailer: trailer}})
}
