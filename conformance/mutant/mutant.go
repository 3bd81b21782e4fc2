// Package mutant holds runtimes that are broken on purpose, each in one way, as decorators of a good one. They show that the
// cases of package conformance can fail: each mutant names those that must tell it from the good runtime.
//
// A mutant is a value of [Mutant], found by [All]. It knows the contract and nothing of the runtime that it breaks.
package mutant

import (
	"context"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// Mutant is one way to be broken.
type Mutant struct {
	ID      string
	Doc     string   // what is wrong, in one sentence
	Killers []string // IDs of the cases that must fail on it

	breaks func(sdk.Worker) sdk.Worker
}

// Runtime gives rt with all its workers broken. What it gives must not be used beside rt.
func (m Mutant) Runtime(rt sdk.Runtime) sdk.Runtime {
	return &runtime{Runtime: rt, mutant: m, workers: make(map[string]sdk.Worker)}
}

type runtime struct {
	sdk.Runtime
	mutant Mutant

	mu      sync.Mutex
	workers map[string]sdk.Worker // one for each name: a mutant may remember things
}

func (r *runtime) Worker(name string) (sdk.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w, ok := r.workers[name]; ok {
		return w, nil
	}
	w, err := r.Runtime.Worker(name)
	if err != nil {
		return nil, err
	}
	w = r.mutant.breaks(w)
	r.workers[name] = w
	return w, nil
}

// Crasher is a mutant that is broken only after its plugin was killed and restarted.
type Crasher interface {
	// Crashed says that this just happened.
	Crashed()
}

// Crashed tells all workers of a mutant's runtime that the plugin was killed and restarted.
func Crashed(rt sdk.Runtime) {
	r, ok := rt.(*runtime)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers {
		if c, ok := w.(Crasher); ok {
			c.Crashed()
		}
	}
}

// broken is a worker with some methods replaced.
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
	followProcess    func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error
	streamIn         func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error
	streamOut        func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, w io.Writer) error
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

func (b *broken) Status(ctx context.Context) (sdk.Status, error) {
	if b.status != nil {
		return b.status(ctx)
	}
	return b.Worker.Status(ctx)
}

func (b *broken) ListContainers(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if b.listContainers != nil {
		return b.listContainers(ctx, f, emit)
	}
	return b.Worker.ListContainers(ctx, f, emit)
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

func (b *broken) CreateContainer(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if b.createContainer != nil {
		return b.createContainer(ctx, spec, progress)
	}
	return b.Worker.CreateContainer(ctx, spec, progress)
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
