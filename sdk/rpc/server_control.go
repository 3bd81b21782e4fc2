package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// control runs a call that answers once.
func control[Resp any](s *server, worker string, call func(sdk.Worker) (Resp, error)) (resp Resp, err error) {
	w, release, err := s.worker(worker)
	if err != nil {
		return resp, err
	}
	defer release()
	return call(w)
}

// list runs a call that emits.
func list[T proto.Message, M any](s *server, worker string, send func(*M) error, wrap func([]T) *M,
	call func(w sdk.Worker, add func(T) error) error) error {
	w, release, err := s.worker(worker)
	if err != nil {
		return err
	}
	defer release()
	out := newSender(send)
	defer out.close()
	b := &batch[T, M]{out: out, wrap: wrap}
	if err := call(w, b.add); err != nil {
		return err
	}
	return b.flush()
}

func (s *server) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.StatusResponse, error) {
		status, err := w.Status(ctx)
		if err != nil {
			return nil, err
		}
		return statusToPB(status), nil
	})
}

func (s *server) CreateVolume(ctx context.Context, r *pb.CreateVolumeRequest) (*pb.CreateVolumeResponse, error) {
	spec := volumeSpecFromPB(r)
	return control(s, r.Worker, func(w sdk.Worker) (*pb.CreateVolumeResponse, error) {
		return &pb.CreateVolumeResponse{}, w.CreateVolume(ctx, spec)
	})
}

func (s *server) SealVolume(ctx context.Context, r *pb.SealVolumeRequest) (*pb.SealVolumeResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.SealVolumeResponse, error) {
		return &pb.SealVolumeResponse{}, w.SealVolume(ctx, sdk.VolumeID(r.Id))
	})
}

func (s *server) ListVolumes(r *pb.ListVolumesRequest, stream grpc.ServerStreamingServer[pb.ListVolumesResponse]) error {
	wrap := func(v []*pb.VolumeInfo) *pb.ListVolumesResponse { return &pb.ListVolumesResponse{Volumes: v} }
	return list(s, r.Worker, stream.Send, wrap, func(w sdk.Worker, add func(*pb.VolumeInfo) error) error {
		return w.ListVolumes(stream.Context(), filterFromPB(r.Filter), func(v sdk.VolumeInfo) error { return add(volumeToPB(v)) })
	})
}

func (s *server) DestroyVolume(ctx context.Context, r *pb.DestroyVolumeRequest) (*pb.DestroyVolumeResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.DestroyVolumeResponse, error) {
		return &pb.DestroyVolumeResponse{}, w.DestroyVolume(ctx, sdk.VolumeID(r.Id))
	})
}

func (s *server) CreateContainer(r *pb.CreateContainerRequest, stream grpc.ServerStreamingServer[pb.CreateContainerResponse]) error {
	spec := containerSpecFromPB(r)
	w, release, err := s.worker(r.Worker)
	if err != nil {
		return err
	}
	defer release()
	out := newSender(stream.Send)
	defer out.close()
	progress := func(p sdk.Progress) {
		// Progress is for people: if it cannot be sent, the call's context has ended and says so.
		_ = out.send(&pb.CreateContainerResponse{Event: &pb.CreateContainerResponse_Progress{Progress: progressToPB(p)}})
	}
	if err := w.CreateContainer(stream.Context(), spec, progress); err != nil {
		return err
	}
	return out.send(&pb.CreateContainerResponse{Event: &pb.CreateContainerResponse_Done{Done: &pb.CreateContainerDone{}}})
}

func (s *server) ListContainers(r *pb.ListContainersRequest, stream grpc.ServerStreamingServer[pb.ListContainersResponse]) error {
	wrap := func(c []*pb.ContainerInfo) *pb.ListContainersResponse {
		return &pb.ListContainersResponse{Containers: c}
	}
	return list(s, r.Worker, stream.Send, wrap, func(w sdk.Worker, add func(*pb.ContainerInfo) error) error {
		return w.ListContainers(stream.Context(), filterFromPB(r.Filter), func(c sdk.ContainerInfo) error { return add(containerToPB(c)) })
	})
}

func (s *server) DestroyContainer(ctx context.Context, r *pb.DestroyContainerRequest) (*pb.DestroyContainerResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.DestroyContainerResponse, error) {
		return &pb.DestroyContainerResponse{}, w.DestroyContainer(ctx, sdk.ContainerID(r.Id))
	})
}

func (s *server) StartProcess(ctx context.Context, r *pb.StartProcessRequest) (*pb.StartProcessResponse, error) {
	spec, err := processSpecFromPB(r)
	if err != nil {
		return nil, err
	}
	return control(s, r.Worker, func(w sdk.Worker) (*pb.StartProcessResponse, error) {
		return &pb.StartProcessResponse{}, w.StartProcess(ctx, sdk.ContainerID(r.Container), spec)
	})
}

func (s *server) ListProcesses(r *pb.ListProcessesRequest, stream grpc.ServerStreamingServer[pb.ListProcessesResponse]) error {
	wrap := func(p []*pb.ProcessInfo) *pb.ListProcessesResponse { return &pb.ListProcessesResponse{Processes: p} }
	return list(s, r.Worker, stream.Send, wrap, func(w sdk.Worker, add func(*pb.ProcessInfo) error) error {
		processes, err := w.ListProcesses(stream.Context(), sdk.ContainerID(r.Container))
		if err != nil {
			return err
		}
		for _, p := range processes {
			if err := add(processToPB(p)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *server) SignalProcess(ctx context.Context, r *pb.SignalProcessRequest) (*pb.SignalProcessResponse, error) {
	return control(s, r.Worker, func(w sdk.Worker) (*pb.SignalProcessResponse, error) {
		return &pb.SignalProcessResponse{}, w.SignalProcess(ctx, sdk.ContainerID(r.Container), sdk.ProcessID(r.Process), sdk.Signal(r.Signal))
	})
}
