package memory

import (
	"context"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// The methods of a worker with faults before it. Each is its own operation.

func (w *faulty) Status(ctx context.Context) (status sdk.Status, err error) {
	err = w.call(ctx, "Status", func(inner sdk.Worker) (err error) {
		status, err = inner.Status(ctx)
		return err
	})
	if err != nil {
		return sdk.Status{}, err
	}
	return sdk.StripFeatures(w.worker, status), nil
}

func (w *faulty) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	return w.call(ctx, "CreateVolume", func(inner sdk.Worker) error { return inner.CreateVolume(ctx, spec) })
}

func (w *faulty) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.call(ctx, "SealVolume", func(inner sdk.Worker) error { return inner.SealVolume(ctx, id) })
}

func (w *faulty) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	return w.call(ctx, "ListVolumes", func(inner sdk.Worker) error { return inner.ListVolumes(ctx, filter, emit) })
}

func (w *faulty) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.call(ctx, "DestroyVolume", func(inner sdk.Worker) error { return inner.DestroyVolume(ctx, id) })
}

func (w *faulty) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	return w.stream(ctx, "StreamIn", func(inner sdk.Worker, c *cut) error { return inner.StreamIn(ctx, id, in, cutReader{r, c}) })
}

func (w *faulty) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, to io.Writer) error {
	return w.stream(ctx, "StreamOut", func(inner sdk.Worker, c *cut) error { return inner.StreamOut(ctx, id, out, cutWriter{to, c}) })
}

func (w *faulty) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	return w.call(ctx, "CreateContainer", func(inner sdk.Worker) error { return inner.CreateContainer(ctx, spec, progress) })
}

func (w *faulty) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	return w.call(ctx, "ListContainers", func(inner sdk.Worker) error { return inner.ListContainers(ctx, filter, emit) })
}

func (w *faulty) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	return w.call(ctx, "DestroyContainer", func(inner sdk.Worker) error { return inner.DestroyContainer(ctx, id) })
}

func (w *faulty) StartProcess(ctx context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	return w.call(ctx, "StartProcess", func(inner sdk.Worker) error { return inner.StartProcess(ctx, container, spec) })
}

func (w *faulty) ListProcesses(ctx context.Context, container sdk.ContainerID) (infos []sdk.ProcessInfo, err error) {
	err = w.call(ctx, "ListProcesses", func(inner sdk.Worker) (err error) {
		infos, err = inner.ListProcesses(ctx, container)
		return err
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

func (w *faulty) FollowProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	return w.stream(ctx, "FollowProcess", func(inner sdk.Worker, c *cut) error {
		follow.Output = c.output(follow.Output)
		return inner.FollowProcess(ctx, container, id, from, follow)
	})
}

func (w *faulty) SignalProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, signal sdk.Signal) error {
	return w.call(ctx, "SignalProcess", func(inner sdk.Worker) error { return inner.SignalProcess(ctx, container, id, signal) })
}

// Close is no operation.
func (w *faulty) Close() error { return w.worker.Close() }

func (w *faulty) StatFile(ctx context.Context, id sdk.VolumeID, path string) (info sdk.FileInfo, err error) {
	err = w.files(ctx, "StatFile", func(files sdk.FileReader, _ *cut) (err error) {
		info, err = files.StatFile(ctx, id, path)
		return err
	})
	if err != nil {
		return sdk.FileInfo{}, err
	}
	return info, nil
}

func (w *faulty) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	return w.files(ctx, "ListFiles", func(files sdk.FileReader, _ *cut) error { return files.ListFiles(ctx, id, dir, emit) })
}

func (w *faulty) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, to io.Writer) error {
	return w.files(ctx, "ReadFile", func(files sdk.FileReader, c *cut) error {
		return files.ReadFile(ctx, id, path, offset, length, cutWriter{to, c})
	})
}

func (w *faulty) files(ctx context.Context, operation string, do func(sdk.FileReader, *cut) error) error {
	return w.stream(ctx, operation, func(inner sdk.Worker, c *cut) error {
		files, ok := inner.(sdk.FileReader)
		if !ok {
			return sdk.NewUnsupported(sdk.FeatureFileRead)
		}
		return do(files, c)
	})
}

func (w *faulty) ResizeProcess(ctx context.Context, container sdk.ContainerID, id sdk.ProcessID, size sdk.TTY) error {
	return w.call(ctx, "ResizeProcess", func(inner sdk.Worker) error { return sdk.ResizeProcess(ctx, inner, container, id, size) })
}

func (w *faulty) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (ticket sdk.PeerTicket, err error) {
	err = w.peer(ctx, "PeerTicket", func(peer sdk.PeerStreamer) (err error) {
		ticket, err = peer.PeerTicket(ctx, dst, in)
		return err
	})
	if err != nil {
		return sdk.PeerTicket{}, err
	}
	return ticket, nil
}

func (w *faulty) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	return w.peer(ctx, "PeerSend", func(peer sdk.PeerStreamer) error { return peer.PeerSend(ctx, src, out, ticket) })
}

func (w *faulty) peer(ctx context.Context, operation string, do func(sdk.PeerStreamer) error) error {
	return w.call(ctx, operation, func(inner sdk.Worker) error {
		peer, ok := inner.(sdk.PeerStreamer)
		if !ok {
			return sdk.NewUnsupported(sdk.FeaturePeerStream)
		}
		return do(peer)
	})
}

var (
	_ sdk.Worker       = (*faulty)(nil)
	_ sdk.FileReader   = (*faulty)(nil)
	_ sdk.Resizer      = (*faulty)(nil)
	_ sdk.PeerStreamer = (*faulty)(nil)
)
