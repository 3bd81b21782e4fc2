package mutant

import (
	"context"
	"io"

	"github.com/slipway-run/slipway/sdk"
)

// broken is a worker with some methods replaced. All others, those of the optional interfaces too, are the good worker's.
type broken struct {
	sdk.Worker

	status           func(ctx context.Context) (sdk.Status, error)
	createVolume     func(ctx context.Context, spec sdk.VolumeSpec) error
	sealVolume       func(ctx context.Context, id sdk.VolumeID) error
	destroyVolume    func(ctx context.Context, id sdk.VolumeID) error
	listVolumes      func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error
	listContainers   func(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error
	createContainer  func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error
	destroyContainer func(ctx context.Context, id sdk.ContainerID) error
	startProcess     func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error
	listProcesses    func(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error)
	followProcess    followFunc
	signalProcess    func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error
	streamIn         func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error
	streamOut        func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error
	resizeProcess    func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, size sdk.TTY) error
	peerSend         func(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error
	readFile         func(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, w io.Writer) error
}

type followFunc = func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error

var (
	_ sdk.Resizer      = (*broken)(nil)
	_ sdk.FileReader   = (*broken)(nil)
	_ sdk.PeerStreamer = (*broken)(nil)
)

// Close leaves the good worker open: other calls on the mutant may still come.
func (b *broken) Close() error { return nil }

func (b *broken) Status(ctx context.Context) (sdk.Status, error) {
	if b.status != nil {
		return b.status(ctx)
	}
	return b.Worker.Status(ctx)
}

func (b *broken) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if b.createVolume != nil {
		return b.createVolume(ctx, spec)
	}
	return b.Worker.CreateVolume(ctx, spec)
}

func (b *broken) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	if b.sealVolume != nil {
		return b.sealVolume(ctx, id)
	}
	return b.Worker.SealVolume(ctx, id)
}

func (b *broken) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if b.destroyVolume != nil {
		return b.destroyVolume(ctx, id)
	}
	return b.Worker.DestroyVolume(ctx, id)
}

func (b *broken) ListVolumes(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if b.listVolumes != nil {
		return b.listVolumes(ctx, f, emit)
	}
	return b.Worker.ListVolumes(ctx, f, emit)
}

func (b *broken) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	if b.streamIn != nil {
		return b.streamIn(ctx, id, in, r)
	}
	return b.Worker.StreamIn(ctx, id, in, r)
}

func (b *broken) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error {
	if b.streamOut != nil {
		return b.streamOut(ctx, id, out, w)
	}
	return b.Worker.StreamOut(ctx, id, out, w)
}

func (b *broken) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if b.createContainer != nil {
		return b.createContainer(ctx, spec, progress)
	}
	return b.Worker.CreateContainer(ctx, spec, progress)
}

func (b *broken) ListContainers(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if b.listContainers != nil {
		return b.listContainers(ctx, f, emit)
	}
	return b.Worker.ListContainers(ctx, f, emit)
}

func (b *broken) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	if b.destroyContainer != nil {
		return b.destroyContainer(ctx, id)
	}
	return b.Worker.DestroyContainer(ctx, id)
}

func (b *broken) StartProcess(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
	if b.startProcess != nil {
		return b.startProcess(ctx, id, spec)
	}
	return b.Worker.StartProcess(ctx, id, spec)
}

func (b *broken) ListProcesses(ctx context.Context, id sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	if b.listProcesses != nil {
		return b.listProcesses(ctx, id)
	}
	return b.Worker.ListProcesses(ctx, id)
}

func (b *broken) FollowProcess(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	if b.followProcess != nil {
		return b.followProcess(ctx, id, p, from, f)
	}
	return b.Worker.FollowProcess(ctx, id, p, from, f)
}

func (b *broken) SignalProcess(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, s sdk.Signal) error {
	if b.signalProcess != nil {
		return b.signalProcess(ctx, id, p, s)
	}
	return b.Worker.SignalProcess(ctx, id, p, s)
}

func (b *broken) ResizeProcess(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, size sdk.TTY) error {
	if b.resizeProcess != nil {
		return b.resizeProcess(ctx, id, p, size)
	}
	return sdk.ResizeProcess(ctx, b.Worker, id, p, size)
}

func (b *broken) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	r, ok := b.Worker.(sdk.FileReader)
	if !ok {
		return sdk.FileInfo{}, sdk.NewUnsupported(sdk.FeatureFileRead)
	}
	return r.StatFile(ctx, id, path)
}

func (b *broken) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	r, ok := b.Worker.(sdk.FileReader)
	if !ok {
		return sdk.NewUnsupported(sdk.FeatureFileRead)
	}
	return r.ListFiles(ctx, id, dir, emit)
}

func (b *broken) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, w io.Writer) error {
	if b.readFile != nil {
		return b.readFile(ctx, id, path, offset, length, w)
	}
	r, ok := b.Worker.(sdk.FileReader)
	if !ok {
		return sdk.NewUnsupported(sdk.FeatureFileRead)
	}
	return r.ReadFile(ctx, id, path, offset, length, w)
}

func (b *broken) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	p, ok := b.Worker.(sdk.PeerStreamer)
	if !ok {
		return sdk.PeerTicket{}, sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	return p.PeerTicket(ctx, dst, in)
}

func (b *broken) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	if b.peerSend != nil {
		return b.peerSend(ctx, src, out, ticket)
	}
	p, ok := b.Worker.(sdk.PeerStreamer)
	if !ok {
		return sdk.NewUnsupported(sdk.FeaturePeerStream)
	}
	return p.PeerSend(ctx, src, out, ticket)
}
