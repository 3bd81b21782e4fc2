//go:build linux

package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// wish is what a container may be asked to be, and a plugin may have a feature for.
type wish struct {
	feature sdk.Feature
	asked   func(sdk.ContainerSpec) bool
	ask     func(*sdk.ContainerSpec) // a little of it; nil: no plugin can have it
}

func wishes() []wish {
	return []wish{
		{sdk.FeatureImageRef, func(s sdk.ContainerSpec) bool { return s.Image.Ref != "" }, nil},
		{sdk.FeaturePrivileged, func(s sdk.ContainerSpec) bool { return s.Privileged }, func(s *sdk.ContainerSpec) { s.Privileged = true }},
		{sdk.FeatureNetworkNone, func(s sdk.ContainerSpec) bool { return s.Hermetic }, func(s *sdk.ContainerSpec) { s.Hermetic = true }},
		{sdk.FeatureLimitsCPU, func(s sdk.ContainerSpec) bool { return s.Limits.CPUMillis != 0 }, func(s *sdk.ContainerSpec) { s.Limits.CPUMillis = 1000 }},
		{sdk.FeatureLimitsMemory, func(s sdk.ContainerSpec) bool { return s.Limits.MemoryBytes != 0 }, func(s *sdk.ContainerSpec) { s.Limits.MemoryBytes = 64 << 20 }},
		{sdk.FeatureLimitsPIDs, func(s sdk.ContainerSpec) bool { return s.Limits.PIDs != 0 }, func(s *sdk.ContainerSpec) { s.Limits.PIDs = 64 }},
		{sdk.FeatureLimitsDisk, func(s sdk.ContainerSpec) bool { return s.Limits.DiskBytes != 0 }, func(s *sdk.ContainerSpec) { s.Limits.DiskBytes = 1 << 20 }},
	}
}

// supported refuses what could only be ignored.
func (w *Worker) supported(ctx context.Context, spec sdk.ContainerSpec) error {
	for _, wish := range wishes() {
		if !wish.asked(spec) || slices.Contains(w.o.Features, wish.feature) {
			continue
		}
		if slices.Contains(w.o.Tried, wish.feature) {
			there, err := w.probe(ctx)
			if err != nil {
				return volumedir.Fault(err, sdk.KindWorker, w.name)
			}
			if slices.Contains(there, wish.feature) {
				continue
			}
		}
		return sdk.NewUnsupported(wish.feature)
	}
	return nil
}

// probe tells what this worker can do.
func (w *Worker) probe(ctx context.Context) ([]sdk.Feature, error) {
	select {
	case w.probing <- struct{}{}:
		defer func() { <-w.probing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if w.features != nil {
		return w.features, nil
	}
	archives, err := w.Store.Features()
	if err != nil {
		return nil, err
	}
	if err := w.removeProbes(ctx); err != nil {
		return nil, err
	}
	heeded := slices.Concat(w.o.Features, w.o.Tried)
	info, err := w.probeContainer(ctx, w.o.Tried)
	if err != nil && len(w.o.Tried) > 0 {
		w.o.Log.Info("containers cannot be made with some features, if at all", "features", w.o.Tried, "error", err)
		heeded = w.o.Features
		info, err = w.probeContainer(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	for _, note := range info.Notes {
		w.o.Log.Info("processes in containers", "note", note)
	}
	features := slices.Concat(heeded, archives, info.Features, []sdk.Feature{sdk.FeatureImageVolume})
	slices.Sort(features)
	w.features = slices.Compact(features)
	return w.features, nil
}

// probeContainer makes a container that asks for some features and destroys it, under an id that no host can give: each process has its own.
func (w *Worker) probeContainer(ctx context.Context, asked []sdk.Feature) (info shim.Info, err error) {
	id := sdk.ContainerID(probePrefix + rand.Text())
	unlock, err := w.containers.Make(ctx, string(id))
	if err != nil {
		return shim.Info{}, err
	}
	defer unlock()
	spec := sdk.ContainerSpec{ID: id, Hermetic: slices.Contains(w.o.Features, sdk.FeatureNetworkNone)}
	for _, wish := range wishes() {
		if slices.Contains(asked, wish.feature) {
			wish.ask(&spec)
		}
	}
	info, err = w.build(ctx, spec, nil, func(sdk.Progress) {})
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	return info, errors.Join(err, w.remove(undo, id))
}

// removeProbes takes away those of processes that were killed meanwhile.
func (w *Worker) removeProbes(ctx context.Context) error {
	return w.containers.Each(func(name string, _ record) error {
		if !isProbe(sdk.ContainerID(name)) {
			return nil
		}
		unlock, err := w.containers.TryLock(name)
		if unlock == nil {
			return err // somebody's own, or gone
		}
		defer unlock()
		return w.remove(ctx, sdk.ContainerID(name))
	})
}

const probePrefix = "Probe-"

func isProbe(id sdk.ContainerID) bool { return strings.HasPrefix(string(id), probePrefix) }
