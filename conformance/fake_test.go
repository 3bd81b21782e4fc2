package conformance

import (
	"context"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

type lacking struct{ sdk.Worker }

// fake is a runtime of one worker that keeps volumes' ids and nothing else: enough to try the engine on.
type fake struct {
	lacking // what is not written out panics

	mu        sync.Mutex
	volumes   []sdk.VolumeInfo
	destroyed []sdk.VolumeID
	features  []sdk.Feature

	create  func(ctx context.Context, spec sdk.VolumeSpec) error // instead of the honest one
	destroy func(ctx context.Context, id sdk.VolumeID) error
	follow  func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error
}

func (f *fake) FollowProcess(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, fo sdk.Follow) error {
	return f.follow(ctx, id, p, from, fo)
}

func (f *fake) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	if err := emit(sdk.WorkerEvent{Kind: sdk.WorkerSnapshot, Workers: []sdk.WorkerInfo{{Name: "w"}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (f *fake) Worker(name string) (sdk.Worker, error) {
	if name != "w" {
		return nil, sdk.NewNotFound(sdk.KindWorker, name)
	}
	return f, nil
}

func (f *fake) Status(context.Context) (sdk.Status, error) {
	return sdk.Status{Health: sdk.Healthy, Features: f.features}, nil
}

func (f *fake) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if f.create != nil {
		return f.create(ctx, spec)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumes = append(f.volumes, sdk.VolumeInfo{ID: spec.ID, Token: spec.Token, Labels: spec.Labels, State: sdk.VolumeOpen})
	return nil
}

func (f *fake) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.volumes {
		if !filter.Match(string(v.ID), v.Labels) {
			continue
		}
		if err := emit(v); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) ListContainers(context.Context, sdk.Filter, func(sdk.ContainerInfo) error) error {
	return nil
}

func (f *fake) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if f.destroy != nil {
		return f.destroy(ctx, id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, v := range f.volumes {
		if v.ID == id {
			f.volumes = append(f.volumes[:i], f.volumes[i+1:]...)
			break
		}
	}
	f.destroyed = append(f.destroyed, id)
	return nil
}

func (f *fake) Close() error { return nil }
