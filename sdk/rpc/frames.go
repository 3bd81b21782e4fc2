package rpc

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// frame is one message of a stream of chunks, whatever its direction. The zero frame is of a kind that a newer peer
// knows; it is skipped.
type frame struct {
	data    mem.BufferSlice // the receiver's
	trailer *pb.Trailer
	abort   *pb.Abort
}

// Here, and only here, messages become frames.

func frameIn(m *pb.StreamInRequest) frame {
	return frame{data: bytesOf(m.GetData()), trailer: m.GetTrailer(), abort: m.GetAbort()}
}

func frameOut(m *pb.StreamOutResponse) frame {
	return frame{data: bytesOf(m.GetData()), trailer: m.GetTrailer()}
}

func frameFile(m *pb.ReadFileResponse) frame {
	return frame{data: bytesOf(m.GetData()), trailer: m.GetTrailer()}
}

func bytesOf(p []byte) mem.BufferSlice {
	if len(p) == 0 {
		return nil
	}
	return mem.BufferSlice{mem.SliceBuffer(p)}
}

// message is a pointer to a message of type M.
type message[M any] interface {
	*M
	proto.Message
}

// receiver gives the frames of a stream whose messages are of type M.
func receiver[M any, P message[M]](stream interface{ RecvMsg(any) error }, frameOf func(P) frame) func() (frame, error) {
	return func() (frame, error) {
		m := P(new(M))
		in := incoming{other: m}
		if err := stream.RecvMsg(&in); err != nil {
			return frame{}, err
		}
		if in.chunk {
			return frame{data: in.bytes}, nil
		}
		return frameOf(m), nil
	}
}

// sendChunk sends bytes, which are the stream's from then on.
func sendChunk(stream interface{ SendMsg(any) error }, bytes mem.Buffer) error {
	out := outgoing{bytes}
	defer out.release()
	return stream.SendMsg(&out)
}
