package rpc

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/internal/source"
)

// StreamIn implements [sdk.Worker]. If the call ends early, a Read may still be blocked; its result is thrown away.
func (w *worker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	header := &pb.StreamInRequest{Frame: &pb.StreamInRequest_Header{Header: &pb.StreamInHeader{Worker: w.name, Volume: string(id),
		Path: []byte(in.Path), Encoding: in.Encoding}}}
	if err := checkSize(header); err != nil {
		return err
	}
	callCtx, end := w.c.call(ctx)
	defer end()
	stream, err := w.c.data.StreamIn(callCtx)
	if err != nil {
		return w.c.fail(ctx, err, header)
	}
	if err := stream.Send(header); err != nil && err != io.EOF { // io.EOF: the answer is there already
		return w.c.fail(ctx, err, header)
	}

	out := newChunkWriter(w.c.pool, func(b mem.Buffer) error { return sendChunk(stream, b) })
	src := source.New(r, func(src *source.Source) { sendAll(stream, out, src) })
	var resp pb.StreamInResponse
	err = stream.RecvMsg(&resp)
	end() // lets go of a sender that is blocked
	out.fail(io.ErrClosedPipe)
	src.Stop()
	if own := src.Failed(); own != nil {
		return own
	}
	if err != nil {
		return w.c.fail(ctx, err, header)
	}
	return nil
}

// sendAll sends a source, then what says how it ended. Errors of the stream show in its answer.
func sendAll(stream grpc.ClientStreamingClient[pb.StreamInRequest, pb.StreamInResponse], out *chunkWriter, src *source.Source) {
	defer out.abandon(io.ErrClosedPipe)
	_, err := io.Copy(out, onlyReader{src})
	if own := src.Failed(); own != nil {
		out.abandon(own)
		_ = stream.Send(&pb.StreamInRequest{Frame: &pb.StreamInRequest_Abort{Abort: &pb.Abort{Message: shorten(own.Error())}}})
		_ = stream.CloseSend()
		return
	}
	if err != nil {
		return
	}
	trailer, err := out.finish()
	if err != nil {
		return
	}
	_ = stream.Send(&pb.StreamInRequest{Frame: &pb.StreamInRequest_Trailer{Trailer: trailer}})
	_ = stream.CloseSend()
}

type onlyReader struct{ io.Reader }

// StreamOut implements [sdk.Worker].
func (w *worker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
	r := &pb.StreamOutRequest{Worker: w.name, Volume: string(id), Path: []byte(out.Path), Encoding: out.Encoding}
	return receiveChunks(ctx, w.c, w.c.data.StreamOut, r, dst, frameOut)
}

// ReadFile implements [sdk.FileReader].
func (w *worker) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, dst io.Writer) error {
	r := &pb.ReadFileRequest{Worker: w.name, Volume: string(id), Path: []byte(path), Offset: offset, Length: length}
	return receiveChunks(ctx, w.c, w.c.data.ReadFile, r, dst, frameFile)
}

// receiveChunks makes a call that answers with chunks and writes them to dst, whose error is returned unchanged.
func receiveChunks[Req proto.Message, M any, P message[M]](ctx context.Context, c *Client,
	method func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[M], error), request Req, dst io.Writer,
	frameOf func(P) frame) error {
	if err := checkSize(request); err != nil {
		return err
	}
	callCtx, end := c.call(ctx)
	defer end()
	stream, err := method(callCtx, request)
	if err != nil {
		return c.fail(ctx, err, request)
	}
	var broken error // of the stream, not of its content
	recv := receiver(stream, frameOf)
	in := newChunkReader(func() (frame, error) {
		f, err := recv()
		if err != nil && err != io.EOF {
			broken = err
		}
		return f, err
	})
	defer in.close()
	_, err = in.WriteTo(dst)
	if broken != nil {
		return c.fail(ctx, broken, request)
	}
	if err != nil {
		return err // dst's own, or what is wrong with the stream's content
	}
	if _, err := stream.Recv(); err != io.EOF { // the status, which comes after the trailer
		if err == nil {
			return sdk.NewInternal(nil, "the plugin sent more after the trailer of a stream")
		}
		return c.fail(ctx, err, request)
	}
	return nil
}
