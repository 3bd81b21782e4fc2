package rpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// The optional interfaces. Whether a worker has one is asked of its type alone: what its Status names is for hosts.

func (s *server) ResizeProcess(ctx context.Context, r *pb.ResizeProcessRequest) (*pb.ResizeProcessResponse, error) {
	if err := checkProcess(r.Container, r.Process); err != nil {
		return nil, err
	}
	size, err := sizeFromPB(r.Size)
	if err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.ResizeProcessResponse, error) {
		return &pb.ResizeProcessResponse{}, sdk.ResizeProcess(ctx, w, sdk.ContainerID(r.Container), sdk.ProcessID(r.Process), size)
	})
}

func (s *server) ContainerUsage(ctx context.Context, r *pb.ContainerUsageRequest) (*pb.ContainerUsageResponse, error) {
	if err := sdk.CheckID(sdk.KindContainer, r.Id); err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.ContainerUsageResponse, error) {
		usage, err := sdk.ContainerUsage(ctx, w, sdk.ContainerID(r.Id))
		return usageToPB(usage), err
	})
}

func (s *server) PeerTicket(ctx context.Context, r *pb.PeerTicketRequest) (*pb.PeerTicketResponse, error) {
	if err := sdk.CheckID(sdk.KindVolume, r.Volume); err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.PeerTicketResponse, error) {
		p, ok := w.(sdk.PeerStreamer)
		if !ok {
			return nil, sdk.NewUnsupported(sdk.FeaturePeerStream)
		}
		ticket, err := p.PeerTicket(ctx, sdk.VolumeID(r.Volume), sdk.StreamIn{Path: string(r.Path), Encoding: r.Encoding})
		if err != nil {
			return nil, err
		}
		if err := checkTicket(ticket); err != nil {
			return nil, err
		}
		return &pb.PeerTicketResponse{Ticket: ticketToPB(ticket)}, nil
	})
}

func (s *server) PeerSend(ctx context.Context, r *pb.PeerSendRequest) (*pb.PeerSendResponse, error) {
	if err := sdk.CheckID(sdk.KindVolume, r.Volume); err != nil {
		return nil, err
	}
	ticket := ticketFromPB(r.Ticket)
	if err := checkTicket(ticket); err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.PeerSendResponse, error) {
		p, ok := w.(sdk.PeerStreamer)
		if !ok {
			return nil, sdk.NewUnsupported(sdk.FeaturePeerStream)
		}
		out := sdk.StreamOut{Path: string(r.Path), Encoding: r.Encoding}
		return &pb.PeerSendResponse{}, p.PeerSend(ctx, sdk.VolumeID(r.Volume), out, ticket)
	})
}

func checkTicket(t sdk.PeerTicket) error {
	if len(t.Data) > sdk.MaxTicketBytes {
		return sdk.NewInvalid(sdk.ReasonTooLarge, "a peer ticket of %d bytes is too large; at most %d are taken", len(t.Data), sdk.MaxTicketBytes)
	}
	return nil
}

func (s *server) StatFile(ctx context.Context, r *pb.StatFileRequest) (*pb.StatFileResponse, error) {
	if err := sdk.CheckID(sdk.KindVolume, r.Volume); err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.StatFileResponse, error) {
		f, ok := w.(sdk.FileReader)
		if !ok {
			return nil, sdk.NewUnsupported(sdk.FeatureFileRead)
		}
		info, err := f.StatFile(ctx, sdk.VolumeID(r.Volume), string(r.Path))
		return &pb.StatFileResponse{File: fileToPB(info)}, err
	})
}

func (s *server) ListFiles(r *pb.ListFilesRequest, stream grpc.ServerStreamingServer[pb.ListFilesResponse]) error {
	if err := sdk.CheckID(sdk.KindVolume, r.Volume); err != nil {
		return err
	}
	wrap := func(f []*pb.FileInfo) *pb.ListFilesResponse { return &pb.ListFilesResponse{Files: f} }
	return list(s, r.Worker, stream.Send, wrap, func(w sdk.Worker, add func(*pb.FileInfo) error) error {
		f, ok := w.(sdk.FileReader)
		if !ok {
			return sdk.NewUnsupported(sdk.FeatureFileRead)
		}
		return f.ListFiles(stream.Context(), sdk.VolumeID(r.Volume), string(r.Dir), func(i sdk.FileInfo) error { return add(fileToPB(i)) })
	})
}
