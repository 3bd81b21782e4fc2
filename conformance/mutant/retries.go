package mutant

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// retryMutants are broken in what a call leaves behind that failed, was given up, or came at the same time as another.
func retryMutants() []Mutant {
	return []Mutant{
		{
			ID: "failure-remembered", Doc: "a creation that failed holds its id", Rule: 1,
			Killers: []string{"C09-create-retry", "V14-clone-retry"}, breaks: failureRemembered,
		},
		{
			ID: "wrong-name", Doc: "an error about one of several volumes names the first", Rule: 14,
			Killers: []string{"E04-error-names"}, breaks: wrongName,
		},
		{
			ID: "destroyed-before-checked", Doc: "a creation makes room for itself before it looks whose the id is", Rule: 14,
			Killers: []string{"E05-refused-unchanged"}, breaks: destroyedBeforeChecked,
		},
		{
			ID: "deadline-is-cancel", Doc: "a deadline that has passed is told as a cancelled call", Rule: 14, Near: true,
			Killers: []string{"K02-deadline-before"}, breaks: deadlineIsCancel,
		},
		{
			ID: "half-made-held", Doc: "a creation that was given up is neither finished nor removed", Rule: 1, Near: true,
			Killers: []string{"K03-cancel-create"}, breaks: halfMadeHeld,
		},
		{
			ID: "cut-list-is-whole", Doc: "a list whose context ended returns as if it were whole", Rule: 14, Near: true,
			Killers: []string{"K07-cancel-list"}, breaks: cutListIsWhole,
		},
		{
			ID: "seal-cuts-stream", Doc: "a stream under which its volume is sealed counts as done", Rule: 9,
			Killers: []string{"N10-seal-under-stream"}, breaks: sealCutsStream,
		},
		{
			ID: "destroy-once", Doc: "while something is being destroyed, others who destroy it hear an error", Rule: 1,
			Killers: []string{"D05-destroy-race", "N04-create-under-destroy"}, breaks: destroyOnce,
		},
		{
			ID: "half-made-missing", Doc: "a container that could not be made is listed as creating, and calls on it are NotFound", Rule: 3,
			Killers: []string{"C37-container-states"}, breaks: halfMadeMissing,
		},
	}
}

func failureRemembered(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	failed := make(map[string]bool)
	try := func(kind sdk.Kind, id string, create func() error) error {
		mu.Lock()
		before := failed[id]
		mu.Unlock()
		if before {
			return sdk.NewAlreadyExists(kind, id)
		}
		err := create()
		mu.Lock()
		defer mu.Unlock()
		failed[id] = err != nil
		return err
	}
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			return try(sdk.KindVolume, string(spec.ID), func() error { return w.CreateVolume(ctx, spec) })
		},
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			return try(sdk.KindContainer, string(spec.ID), func() error { return w.CreateContainer(ctx, spec, progress) })
		},
	}
}

func wrongName(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		err := w.CreateContainer(ctx, spec, progress)
		if sdk.IsNotFound(err, sdk.KindVolume) && len(spec.Mounts) > 0 {
			return sdk.NewNotFound(sdk.KindVolume, string(spec.Mounts[0].Volume))
		}
		return err
	}}
}

func destroyedBeforeChecked(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		err := w.CreateVolume(ctx, spec)
		if errors.Is(err, sdk.AlreadyExists) {
			return errors.Join(err, w.DestroyVolume(ctx, spec.ID))
		}
		return err
	}}
}

func deadlineIsCancel(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		err := w.CreateVolume(ctx, spec)
		if errors.Is(err, context.DeadlineExceeded) {
			return context.Canceled
		}
		return err
	}}
}

func halfMadeHeld(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	half := make(map[sdk.VolumeID]bool)
	first := sdk.VolumeID("") // clone: nobody may give that up
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		if spec.Clone == "" {
			return w.CreateVolume(ctx, spec)
		}
		mu.Lock()
		held := half[spec.ID]
		if first == "" {
			first = spec.ID
		}
		quick := first == spec.ID
		mu.Unlock()
		if held {
			return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindVolume, string(spec.ID), "volume %q is half made", spec.ID)
		}
		if !quick {
			await(ctx, nil) // as a copy that takes long would
		}
		if ctx.Err() == nil {
			return w.CreateVolume(ctx, spec)
		}
		mu.Lock()
		defer mu.Unlock()
		half[spec.ID] = true
		return ctx.Err()
	}}
}

func cutListIsWhole(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		err := w.ListVolumes(ctx, f, emit)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}}
}

func sealCutsStream(w sdk.Worker) sdk.Worker {
	type meeting struct { // of a stream and a seal: whoever comes first waits for the other
		begun, sealed context.Context
		begin, seal   context.CancelFunc
	}
	var mu sync.Mutex
	met := make(map[sdk.VolumeID]*meeting)
	meet := func(id sdk.VolumeID) *meeting {
		mu.Lock()
		defer mu.Unlock()
		if met[id] == nil {
			m := &meeting{}
			m.begun, m.begin = context.WithCancel(context.Background())
			m.sealed, m.seal = context.WithCancel(context.Background())
			met[id] = m
		}
		return met[id]
	}
	return &broken{Worker: w,
		sealVolume: func(ctx context.Context, id sdk.VolumeID) error {
			m := meet(id)
			await(ctx, m.begun.Done())
			m.seal()
			return w.SealVolume(ctx, id)
		},
		streamIn: func(ctx context.Context, id sdk.VolumeID, _ sdk.StreamIn, r io.Reader) error {
			m := meet(id)
			if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
				return sdk.NewInvalid(sdk.ReasonArchive, "volume %q: an archive of nothing: %v", id, err)
			}
			m.begin()
			await(ctx, m.sealed.Done())
			_, err := io.Copy(io.Discard, r)
			return err
		},
	}
}

func destroyOnce(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	destroyed := make(map[sdk.VolumeID]bool)
	return &broken{Worker: w, destroyVolume: func(ctx context.Context, id sdk.VolumeID) error {
		mu.Lock()
		again := destroyed[id]
		destroyed[id] = true
		mu.Unlock()
		if again {
			return sdk.NewInternal(nil, "volume %q: half of it is gone", id)
		}
		return w.DestroyVolume(ctx, id)
	}}
}

func halfMadeMissing(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	half := make(map[sdk.ContainerID]sdk.ContainerSpec)
	return &broken{Worker: w,
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			err := w.CreateContainer(ctx, spec, progress)
			mu.Lock()
			defer mu.Unlock()
			if delete(half, spec.ID); sdk.IsNotFound(err, sdk.KindVolume) {
				half[spec.ID] = spec
			}
			return err
		},
		listContainers: func(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
			mu.Lock()
			listed := maps.Clone(half)
			mu.Unlock()
			for id, spec := range listed {
				if !f.Match(string(id), spec.Labels) {
					continue
				}
				if err := emit(sdk.ContainerInfo{ID: id, Token: spec.Token, Labels: spec.Labels, State: sdk.ContainerCreating}); err != nil {
					return err
				}
			}
			return w.ListContainers(ctx, f, emit)
		},
		destroyContainer: func(ctx context.Context, id sdk.ContainerID) error {
			mu.Lock()
			delete(half, id)
			mu.Unlock()
			return w.DestroyContainer(ctx, id)
		},
	}
}
