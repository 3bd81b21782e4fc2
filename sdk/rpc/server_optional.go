package rpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// The optional interfaces. Checked workers have them all, and say Unsupported where the plugin's own do not.

func (s *server) ResizeProcess(ctx context.Context, r *pb.ResizeProcessRequest) (*pb.ResizeProcessResponse, error) {
	size, err := sizeFromPB(r.Size)
	if err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.ResizeProcessResponse, error) {
		return &pb.ResizeProcessResponse{}, sdk.ResizeProcess(ctx, w, sdk.ContainerID(r.Container), sdk.ProcessID(r.Process), size)
	})
}

func (s *server) PeerTicket(ctx context.Context, r *pb.PeerTicketRequest) (*pb.PeerTicketResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.PeerTicketResponse, error) {
		ticket, err := w.(sdk.PeerStreamer).PeerTicket(ctx, sdk.VolumeID(r.Volume), sdk.StreamIn{Path: string(r.Path), Encoding: r.Encoding})
		if err != nil {
			return nil, err
		}
		return &pb.PeerTicketResponse{Ticket: ticketToPB(ticket)}, nil
	})
}

func (s *server) PeerSend(ctx context.Context, r *pb.PeerSendRequest) (*pb.PeerSendResponse, error) {
	ticket := ticketFromPB(r.Ticket)
	return control(s, r.Worker, func(w sdk.Worker) (*pb.PeerSendResponse, error) {
		out := sdk.StreamOut{Path: string(r.Path), Encoding: r.Encoding}
		return &pb.PeerSendResponse{}, w.(sdk.PeerStreamer).PeerSend(ctx, sdk.VolumeID(r.Volume), out, ticket)
	})
}

func (s *server) StatFile(ctx context.Context, r *pb.StatFileRequest) (*pb.StatFileResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.StatFileResponse, error) {
		info, err := w.(sdk.FileReader).StatFile(ctx, sdk.VolumeID(r.Volume), string(r.Path))
		return &pb.StatFileResponse{File: fileToPB(info)}, err
	})
}

func (s *server) ListFiles(r *pb.ListFilesRequest, stream grpc.ServerStreamingServer[pb.ListFilesResponse]) error {
	wrap := func(f []*pb.FileInfo) *pb.ListFilesResponse { return &pb.ListFilesResponse{Files: f} }
	return list(s, r.Worker, stream.Send, wrap, func(w sdk.Worker, add func(*pb.FileInfo) error) error {
		return w.(sdk.FileReader).ListFiles(stream.Context(), sdk.VolumeID(r.Volume), string(r.Dir), func(i sdk.FileInfo) error { return add(fileToPB(i)) })
	})
}
