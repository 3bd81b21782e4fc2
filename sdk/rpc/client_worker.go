package rpc

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// worker is one worker of a plugin, by name.
type worker struct {
	c    *Client
	name string
}

var (
	_ sdk.Worker       = (*worker)(nil)
	_ sdk.Resizer      = (*worker)(nil)
	_ sdk.PeerStreamer = (*worker)(nil)
	_ sdk.FileReader   = (*worker)(nil)
)

// Close implements [sdk.Worker]. On the wire a worker is a name; the plugin's handle is the plugin's side's.
func (w *worker) Close() error { return nil }

// Status implements [sdk.Worker].
func (w *worker) Status(ctx context.Context) (sdk.Status, error) {
	resp, err := unary(ctx, w.c, w.c.worker.Status, &pb.StatusRequest{Worker: w.name})
	if err != nil {
		return sdk.Status{}, err
	}
	if err := w.c.told.put(statusKey(w.name), resp); err != nil {
		return sdk.Status{}, err
	}
	return statusFromPB(resp), nil
}

// CreateVolume implements [sdk.Worker].
func (w *worker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	_, err := unary(ctx, w.c, w.c.worker.CreateVolume, volumeSpecToPB(w.name, spec))
	return err
}

// SealVolume implements [sdk.Worker].
func (w *worker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	_, err := unary(ctx, w.c, w.c.worker.SealVolume, &pb.SealVolumeRequest{Worker: w.name, Id: string(id)})
	return err
}

// ListVolumes implements [sdk.Worker].
func (w *worker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	r := &pb.ListVolumesRequest{Worker: w.name, Filter: filterToPB(filter)}
	told := bound{what: "ListVolumes", maxRows: sdk.MaxListed}
	return receive(ctx, w.c, w.c.worker.ListVolumes, r, func(m *pb.ListVolumesResponse) error {
		if err := told.take(m, len(m.Volumes)); err != nil {
			return err
		}
		return each(m.Volumes, func(v *pb.VolumeInfo) error { return emit(volumeFromPB(v)) })
	})
}

func each[T any](items []T, do func(T) error) error {
	for _, item := range items {
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}

// DestroyVolume implements [sdk.Worker].
func (w *worker) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	_, err := unary(ctx, w.c, w.c.worker.DestroyVolume, &pb.DestroyVolumeRequest{Worker: w.name, Id: string(id)})
	return err
}

// CreateContainer implements [sdk.Worker].
func (w *worker) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	done := false
	err := receive(ctx, w.c, w.c.worker.CreateContainer, containerSpecToPB(w.name, spec), func(m *pb.CreateContainerResponse) error {
		if m.GetDone() != nil {
			done = true
		}
		if p := m.GetProgress(); p != nil && progress != nil {
			progress(progressFromPB(p))
		}
		return nil
	})
	if err == nil && !done {
		return sdk.NewInternal(nil, "creating container %q: the plugin's answer ended without saying that it is done", spec.ID)
	}
	return err
}

// ListContainers implements [sdk.Worker].
func (w *worker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	r := &pb.ListContainersRequest{Worker: w.name, Filter: filterToPB(filter)}
	told := bound{what: "ListContainers", maxRows: sdk.MaxListed}
	return receive(ctx, w.c, w.c.worker.ListContainers, r, func(m *pb.ListContainersResponse) error {
		if err := told.take(m, len(m.Containers)); err != nil {
			return err
		}
		return each(m.Containers, func(c *pb.ContainerInfo) error { return emit(containerFromPB(c)) })
	})
}

// DestroyContainer implements [sdk.Worker].
func (w *worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	_, err := unary(ctx, w.c, w.c.worker.DestroyContainer, &pb.DestroyContainerRequest{Worker: w.name, Id: string(id)})
	return err
}

// StartProcess implements [sdk.Worker].
func (w *worker) StartProcess(ctx context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	_, err := unary(ctx, w.c, w.c.worker.StartProcess, processSpecToPB(w.name, container, spec))
	return err
}

// ListProcesses implements [sdk.Worker].
func (w *worker) ListProcesses(ctx context.Context, container sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	var all []sdk.ProcessInfo
	r := &pb.ListProcessesRequest{Worker: w.name, Container: string(container)}
	told := bound{what: "ListProcesses", maxRows: 2 * sdk.MaxProcesses}
	err := receive(ctx, w.c, w.c.worker.ListProcesses, r, func(m *pb.ListProcessesResponse) error {
		if err := told.take(m, len(m.Processes)); err != nil {
			return err
		}
		for _, p := range m.Processes {
			all = append(all, processFromPB(p))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// SignalProcess implements [sdk.Worker].
func (w *worker) SignalProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, signal sdk.Signal) error {
	_, err := unary(ctx, w.c, w.c.worker.SignalProcess, &pb.SignalProcessRequest{Worker: w.name, Container: string(container),
		Process: string(process), Signal: string(signal)})
	return err
}

// ResizeProcess implements [sdk.Resizer].
func (w *worker) ResizeProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, size sdk.TTY) error {
	_, err := unary(ctx, w.c, w.c.worker.ResizeProcess, &pb.ResizeProcessRequest{Worker: w.name, Container: string(container),
		Process: string(process), Size: sizeToPB(size)})
	return err
}

// PeerTicket implements [sdk.PeerStreamer].
func (w *worker) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	resp, err := unary(ctx, w.c, w.c.worker.PeerTicket, &pb.PeerTicketRequest{Worker: w.name, Volume: string(dst), Path: []byte(in.Path),
		Encoding: in.Encoding})
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	return ticketFromPB(resp.Ticket), nil
}

// PeerSend implements [sdk.PeerStreamer].
func (w *worker) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	_, err := unary(ctx, w.c, w.c.worker.PeerSend, &pb.PeerSendRequest{Worker: w.name, Volume: string(src), Path: []byte(out.Path),
		Encoding: out.Encoding, Ticket: ticketToPB(ticket)})
	return err
}

// StatFile implements [sdk.FileReader].
func (w *worker) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	resp, err := unary(ctx, w.c, w.c.worker.StatFile, &pb.StatFileRequest{Worker: w.name, Volume: string(id), Path: []byte(path)})
	if err != nil {
		return sdk.FileInfo{}, err
	}
	return fileFromPB(resp.File), nil
}

// ListFiles implements [sdk.FileReader].
func (w *worker) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	r := &pb.ListFilesRequest{Worker: w.name, Volume: string(id), Dir: []byte(dir)}
	told := bound{what: "ListFiles", maxRows: sdk.MaxListed}
	return receive(ctx, w.c, w.c.worker.ListFiles, r, func(m *pb.ListFilesResponse) error {
		if err := told.take(m, len(m.Files)); err != nil {
			return err
		}
		return each(m.Files, func(f *pb.FileInfo) error { return emit(fileFromPB(f)) })
	})
}
