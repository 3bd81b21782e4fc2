package rpc_test

import (
	"context"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// recorder is a runtime and a worker at once. It keeps what came in, and answers what it was told to.
type recorder struct {
	answer answers

	mu  sync.Mutex
	got []any
}

type answers struct {
	err     error
	panics  bool
	blocks  bool          // until the call's context ends
	entered chan struct{} // told when a call has come in, if not nil
	left    chan struct{} // told when it is about to end, if not nil

	status  sdk.Status
	volumes []sdk.VolumeInfo
	data    []byte
	steps   []sdk.Progress
	boxes   []sdk.ContainerInfo
	procs   []sdk.ProcessInfo
	opened  sdk.Opened
	records []sdk.Record
	exit    sdk.Exit
	ticket  sdk.PeerTicket
	files   []sdk.FileInfo
	events  []sdk.WorkerEvent
}

// call records one call and says how it goes on.
func (r *recorder) call(ctx context.Context, args ...any) error {
	r.mu.Lock()
	r.got = args
	r.mu.Unlock()
	if r.answer.entered != nil {
		r.answer.entered <- struct{}{}
	}
	if r.answer.left != nil {
		defer func() { r.answer.left <- struct{}{} }()
	}
	if r.answer.panics {
		panic("a plugin's mistake")
	}
	if r.answer.blocks {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.answer.err
}

func (r *recorder) args() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func emitAll[T any](items []T, emit func(T) error) error {
	for _, item := range items {
		if err := emit(item); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := r.call(ctx); err != nil {
		return err
	}
	return emitAll(r.answer.events, emit)
}

func (r *recorder) Worker(string) (sdk.Worker, error) { return r, nil }

func (r *recorder) Status(ctx context.Context) (sdk.Status, error) {
	return r.answer.status, r.call(ctx)
}

func (r *recorder) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	return r.call(ctx, spec)
}

func (r *recorder) SealVolume(ctx context.Context, id sdk.VolumeID) error { return r.call(ctx, id) }

func (r *recorder) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if err := r.call(ctx, filter); err != nil {
		return err
	}
	return emitAll(r.answer.volumes, emit)
}

func (r *recorder) DestroyVolume(ctx context.Context, id sdk.VolumeID) error { return r.call(ctx, id) }

func (r *recorder) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, src io.Reader) error {
	if r.answer.panics || r.answer.err != nil || r.answer.blocks {
		return r.call(ctx, id, in)
	}
	data, err := io.ReadAll(src)
	if err != nil {
		return r.call(ctx, id, in, err)
	}
	return r.call(ctx, id, in, string(data)) // a string compares faster
}

func (r *recorder) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
	if err := r.call(ctx, id, out); err != nil {
		return err
	}
	_, err := dst.Write(r.answer.data)
	return err
}

func (r *recorder) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	for _, step := range r.answer.steps {
		progress(step)
	}
	return r.call(ctx, spec)
}

func (r *recorder) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if err := r.call(ctx, filter); err != nil {
		return err
	}
	return emitAll(r.answer.boxes, emit)
}

func (r *recorder) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	return r.call(ctx, id)
}

func (r *recorder) StartProcess(ctx context.Context, container sdk.ContainerID, spec sdk.ProcessSpec) error {
	return r.call(ctx, container, spec)
}

func (r *recorder) ListProcesses(ctx context.Context, container sdk.ContainerID) ([]sdk.ProcessInfo, error) {
	return r.answer.procs, r.call(ctx, container)
}

func (r *recorder) FollowProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, from sdk.Position, follow sdk.Follow) error {
	if err := follow.Opened(r.answer.opened); err != nil {
		return err
	}
	if err := r.call(ctx, container, process, from); err != nil {
		return err
	}
	if len(r.answer.records) > 0 {
		if err := follow.Output(r.answer.records); err != nil {
			return err
		}
	}
	return follow.Exit(r.answer.exit)
}

func (r *recorder) SignalProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, signal sdk.Signal) error {
	return r.call(ctx, container, process, signal)
}

func (r *recorder) Close() error { return nil }

func (r *recorder) ResizeProcess(ctx context.Context, container sdk.ContainerID, process sdk.ProcessID, size sdk.TTY) error {
	return r.call(ctx, container, process, size)
}

func (r *recorder) PeerTicket(ctx context.Context, dst sdk.VolumeID, in sdk.StreamIn) (sdk.PeerTicket, error) {
	return r.answer.ticket, r.call(ctx, dst, in)
}

func (r *recorder) PeerSend(ctx context.Context, src sdk.VolumeID, out sdk.StreamOut, ticket sdk.PeerTicket) error {
	return r.call(ctx, src, out, ticket)
}

func (r *recorder) StatFile(ctx context.Context, id sdk.VolumeID, path string) (sdk.FileInfo, error) {
	if len(r.answer.files) == 0 {
		return sdk.FileInfo{}, r.call(ctx, id, path)
	}
	return r.answer.files[0], r.call(ctx, id, path)
}

func (r *recorder) ListFiles(ctx context.Context, id sdk.VolumeID, dir string, emit func(sdk.FileInfo) error) error {
	if err := r.call(ctx, id, dir); err != nil {
		return err
	}
	return emitAll(r.answer.files, emit)
}

func (r *recorder) ReadFile(ctx context.Context, id sdk.VolumeID, path string, offset, length int64, dst io.Writer) error {
	if err := r.call(ctx, id, path, offset, length); err != nil {
		return err
	}
	_, err := dst.Write(r.answer.data)
	return err
}
