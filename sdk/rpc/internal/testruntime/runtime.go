// Package testruntime is a small runtime that keeps the rules which package rpc has to carry: tokens, journals, followers,
// stdin. It knows four commands and keeps archives as they came. It is for the tests of package rpc; who looks for a runtime
// to use wants plugins/memory.
package testruntime

import (
	"context"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// Runtime has one worker, named Name.
type Runtime struct {
	Name string

	mu         sync.Mutex
	volumes    map[sdk.VolumeID]*volume
	containers map[sdk.ContainerID]*container
}

// New makes an empty runtime.
func New(name string) *Runtime {
	return &Runtime{Name: name, volumes: map[sdk.VolumeID]*volume{}, containers: map[sdk.ContainerID]*container{}}
}

type volume struct {
	spec   sdk.VolumeSpec
	sealed bool
	files  map[string][]byte // archives by the path that they came to
}

type container struct {
	spec      sdk.ContainerSpec
	processes map[sdk.ProcessID]*process
}

// Workers implements [sdk.Runtime].
func (r *Runtime) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	workers := []sdk.WorkerInfo{{Name: r.Name, Platform: "test"}}
	if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: workers}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// Worker implements [sdk.Runtime].
func (r *Runtime) Worker(name string) (sdk.Worker, error) {
	if name != r.Name {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return &worker{r}, nil
}

type worker struct{ *Runtime }

func (w *worker) Close() error { return nil }

func (w *worker) Status(context.Context) (sdk.Status, error) {
	return sdk.Status{Health: sdk.Healthy, ContainerIncarnation: "c", VolumeIncarnation: "v", Encodings: []string{sdk.EncodingRaw},
		Features: []sdk.Feature{sdk.FeatureTTYResize}}, nil // a lie: the type has no ResizeProcess
}

func (w *worker) CreateVolume(_ context.Context, spec sdk.VolumeSpec) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.volumes[spec.ID]; ok {
		if v.spec.Token != spec.Token {
			return sdk.NewAlreadyExists(sdk.KindVolume, string(spec.ID))
		}
		return nil
	}
	w.volumes[spec.ID] = &volume{spec: spec, files: map[string][]byte{}}
	return nil
}

func (w *worker) SealVolume(_ context.Context, id sdk.VolumeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.volumes[id]
	if !ok {
		return sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	v.sealed = true
	return nil
}

func (w *worker) ListVolumes(_ context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	for _, info := range w.snapshotVolumes(filter) {
		if err := emit(info); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) snapshotVolumes(filter sdk.Filter) []sdk.VolumeInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []sdk.VolumeInfo
	for id, v := range w.volumes {
		if !filter.Match(string(id), v.spec.Labels) {
			continue
		}
		state := sdk.VolumeOpen
		if v.sealed {
			state = sdk.VolumeSealed
		}
		all = append(all, sdk.VolumeInfo{ID: id, Token: v.spec.Token, Labels: v.spec.Labels, State: state, Bytes: -1})
	}
	return all
}

func (w *worker) DestroyVolume(_ context.Context, id sdk.VolumeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.volumes, id)
	return nil
}

func (w *worker) StreamIn(_ context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	w.mu.Lock()
	v, ok := w.volumes[id]
	w.mu.Unlock()
	if !ok {
		return sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return sdk.NewInvalid(sdk.ReasonArchive, "reading the archive: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v.sealed {
		return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(id), "volume %q is sealed", id)
	}
	v.files[in.Path] = data
	return nil
}

func (w *worker) StreamOut(_ context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
	w.mu.Lock()
	v, ok := w.volumes[id]
	var data []byte
	found := false
	if ok {
		data, found = v.files[out.Path]
	}
	w.mu.Unlock()
	if !ok {
		return sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	if !found {
		return sdk.NewNotFound(sdk.KindFile, out.Path)
	}
	_, err := dst.Write(data)
	return err
}

func (w *worker) CreateContainer(_ context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
	if progress != nil {
		progress(sdk.Progress{Phase: "starting"})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.containers[spec.ID]; ok {
		if c.spec.Token != spec.Token {
			return sdk.NewAlreadyExists(sdk.KindContainer, string(spec.ID))
		}
		return nil
	}
	w.containers[spec.ID] = &container{spec: spec, processes: map[sdk.ProcessID]*process{}}
	return nil
}

func (w *worker) ListContainers(_ context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	w.mu.Lock()
	var all []sdk.ContainerInfo
	for id, c := range w.containers {
		if filter.Match(string(id), c.spec.Labels) {
			all = append(all, sdk.ContainerInfo{ID: id, Token: c.spec.Token, Labels: c.spec.Labels, State: sdk.ContainerReady})
		}
	}
	w.mu.Unlock()
	for _, info := range all {
		if err := emit(info); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) DestroyContainer(_ context.Context, id sdk.ContainerID) error {
	w.mu.Lock()
	c, ok := w.containers[id]
	delete(w.containers, id)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	for _, p := range c.processes {
		p.destroy(id)
	}
	return nil
}
