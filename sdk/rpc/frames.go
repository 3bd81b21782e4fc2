package rpc

import "github.com/slipway-run/slipway/sdk/internal/pb"

// Here, and only here, chunks become messages and messages chunks. A codec that passes buffers through would begin here
// and end in chunkWriter and chunkReader.

func chunkIn(p []byte) *pb.StreamInRequest {
	return &pb.StreamInRequest{Frame: &pb.StreamInRequest_Data{Data: p}}
}

func chunkOut(p []byte) *pb.StreamOutResponse {
	return &pb.StreamOutResponse{Frame: &pb.StreamOutResponse_Data{Data: p}}
}

func chunkFile(p []byte) *pb.ReadFileResponse {
	return &pb.ReadFileResponse{Frame: &pb.ReadFileResponse_Data{Data: p}}
}

// frame is one message of a stream of chunks, whatever its direction. The zero frame is of a kind that a newer peer
// knows; it is skipped.
type frame struct {
	data    []byte
	trailer *pb.Trailer
	abort   *pb.Abort
}

func frameIn(m *pb.StreamInRequest) frame {
	return frame{data: m.GetData(), trailer: m.GetTrailer(), abort: m.GetAbort()}
}

func frameOut(m *pb.StreamOutResponse) frame {
	return frame{data: m.GetData(), trailer: m.GetTrailer()}
}

func frameFile(m *pb.ReadFileResponse) frame {
	return frame{data: m.GetData(), trailer: m.GetTrailer()}
}
