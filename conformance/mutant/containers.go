package mutant

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// containerMutants are broken in where processes run.
func containerMutants() []Mutant {
	return []Mutant{
		{
			ID: "never-ready", Doc: "containers are listed as creating for ever", Rule: 1,
			Killers: []string{"C01-minimal"}, breaks: neverReady,
		},
		{
			ID: "container-left", Doc: "destroying a container only says that it did", Rule: 1,
			Killers: []string{"C06-destroy", "Q03-nothing-left"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, destroyContainer: func(context.Context, sdk.ContainerID) error { return nil }}
			},
		},
		{
			ID: "destroyed-never-ran", Doc: "a follower under DestroyContainer hears that its process never ran", Rule: 8,
			Killers: []string{"C07-destroy-running", "N03-destroy-under-calls"}, breaks: follower(destroyedNeverRan),
		},
		{
			ID: "mounts-read-only", Doc: "mounts are never writable", Rule: 9,
			Killers: []string{"C19-mount-rw"}, breaks: mounts(func(m []sdk.Mount) []sdk.Mount { return allReadOnly(m, true) }),
		},
		{
			ID: "read-only-ignored", Doc: "mounts are always writable", Rule: 9,
			Killers: []string{"C20-mount-ro"}, breaks: mounts(func(m []sdk.Mount) []sdk.Mount { return allReadOnly(m, false) }),
		},
		{
			ID: "inner-mount-hidden", Doc: "a mount below another one is not there", Rule: 11,
			Killers: []string{"C21-mount-nested", "C27-mount-hides"}, breaks: mounts(innerHidden),
		},
		{
			ID: "bad-spec-bent", Doc: "a container whose spec can never work counts as made", Rule: 14, Near: true,
			Killers: []string{"C23-spec-refused"}, breaks: func(w sdk.Worker) sdk.Worker {
				return specsTaken(w, func(id, token error, labels map[string]string) bool {
					return id == nil && token == nil && sdk.CheckLabels(labels) == nil
				})
			},
		},
		{
			ID: "mounted-once", Doc: "a volume can be mounted in one container at a time", Rule: 9,
			Killers: []string{"C25-mount-shared"}, breaks: mountedOnce,
		},
		{
			ID: "missing-mount-dropped", Doc: "a container is made without the volumes that are not there", Rule: 9,
			Killers: []string{"C26-mount-missing"}, breaks: missingMountDropped,
		},
		{
			ID: "dir-ignored", Doc: "processes begin in the root", Rule: 11,
			Killers: []string{"P19-dir"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Dir = ""
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
	}
}

func neverReady(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listContainers: func(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
		return w.ListContainers(ctx, f, func(i sdk.ContainerInfo) error {
			i.State = sdk.ContainerCreating
			return emit(i)
		})
	}}
}

func destroyedNeverRan(w sdk.Worker) followFunc {
	return func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if sdk.IsNotFound(err, sdk.KindContainer) {
			return sdk.NewNotFound(sdk.KindProcess, string(p))
		}
		return err
	}
}

// mounts breaks those of a container. The slice that change gets is its own.
func mounts(change func([]sdk.Mount) []sdk.Mount) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			spec.Mounts = change(slices.Clone(spec.Mounts))
			return w.CreateContainer(ctx, spec, progress)
		}}
	}
}

func allReadOnly(ms []sdk.Mount, readOnly bool) []sdk.Mount {
	for i := range ms {
		ms[i].ReadOnly = readOnly
	}
	return ms
}

func innerHidden(ms []sdk.Mount) []sdk.Mount {
	return slices.DeleteFunc(ms, func(m sdk.Mount) bool {
		return slices.ContainsFunc(ms, func(outer sdk.Mount) bool {
			return outer.Path != "" && strings.HasPrefix(m.Path, outer.Path+"/")
		})
	})
}

func mountedOnce(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	mounted := make(map[sdk.VolumeID]sdk.ContainerID)
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range spec.Mounts {
			if by, ok := mounted[m.Volume]; ok && by != spec.ID {
				return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(m.Volume), "volume %q is mounted in container %q", m.Volume, by)
			}
			mounted[m.Volume] = spec.ID
		}
		return w.CreateContainer(ctx, spec, progress)
	}}
}

func missingMountDropped(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		err := w.CreateContainer(ctx, spec, progress)
		if !sdk.IsNotFound(err, sdk.KindVolume) {
			return err
		}
		if err := w.DestroyContainer(ctx, spec.ID); err != nil {
			return err
		}
		spec.Mounts = nil
		return w.CreateContainer(ctx, spec, progress)
	}}
}
