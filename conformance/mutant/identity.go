package mutant

import (
	"context"
	"errors"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// identityMutants are broken in what a thing is: its id and its token.
func identityMutants() []Mutant {
	return []Mutant{
		{
			ID: "already-exists-missing", Doc: "another token's id is taken for one's own", Rule: 1,
			Killers: []string{"D02-create-race", "D03-other-token", "P08-other-token", "D04-start-race"}, breaks: alreadyExistsMissing,
		},
		{
			ID: "same-token-refused", Doc: "a creation that is repeated with its token is refused", Rule: 1,
			Killers: []string{"D01-create-again"}, breaks: sameTokenRefused,
		},
		{
			ID: "bad-ids-taken", Doc: "what has an id or a token that is none is accepted, and nothing is made", Rule: 1,
			Killers: []string{"C04-bad-ids"}, Near: true,
			breaks: func(w sdk.Worker) sdk.Worker {
				return specsTaken(w, func(id, token error, _ map[string]string) bool { return id != nil || token != nil })
			},
		},
		{
			ID: "long-ids-refused", Doc: "ids of more than forty bytes are refused", Rule: 1,
			Killers: []string{"C05-longest-id"}, breaks: longIDsRefused,
		},
		{
			ID: "not-found-of-container", Doc: "NotFound of a process is said to be of its container", Rule: 3,
			Killers: []string{"E02-unknown-ids", "P02-exec-missing"}, breaks: notFoundOfContainer,
		},
		{
			ID: "destroy-missing-fails", Doc: "destroying what is not there is NotFound", Rule: 1,
			Killers: []string{"C06-destroy", "E02-unknown-ids", "V04-destroy"}, breaks: destroyMissingFails,
		},
	}
}

func alreadyExistsMissing(w sdk.Worker) sdk.Worker {
	swallow := func(err error) error {
		if errors.Is(err, sdk.AlreadyExists) {
			return nil
		}
		return err
	}
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error { return swallow(w.CreateVolume(ctx, spec)) },
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			return swallow(w.CreateContainer(ctx, spec, progress))
		},
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			return swallow(w.StartProcess(ctx, id, spec))
		},
	}
}

func sameTokenRefused(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	made := make(map[sdk.VolumeID]bool)
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		mu.Lock()
		defer mu.Unlock()
		if made[spec.ID] {
			return sdk.NewAlreadyExists(sdk.KindVolume, string(spec.ID))
		}
		err := w.CreateVolume(ctx, spec)
		made[spec.ID] = err == nil
		return err
	}}
}

// specsTaken lets specs pass as done that are Invalid, where they are of the kind that bad tells: by what is wrong with id and token, and by
// the labels.
func specsTaken(w sdk.Worker, bad func(id, token error, labels map[string]string) bool) sdk.Worker {
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			err := w.CreateVolume(ctx, spec)
			if errors.Is(err, sdk.Invalid) && bad(sdk.CheckID(sdk.KindVolume, string(spec.ID)), sdk.CheckToken(spec.Token), spec.Labels) {
				return nil
			}
			return err
		},
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			err := w.CreateContainer(ctx, spec, progress)
			if errors.Is(err, sdk.Invalid) && bad(sdk.CheckID(sdk.KindContainer, string(spec.ID)), sdk.CheckToken(spec.Token), spec.Labels) {
				return nil
			}
			return err
		},
	}
}

func longIDsRefused(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		if len(spec.ID) > 40 {
			return sdk.NewInvalid(sdk.ReasonSpec, "volume %q: its name is too long", spec.ID)
		}
		return w.CreateVolume(ctx, spec)
	}}
}

func notFoundOfContainer(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if sdk.IsNotFound(err, sdk.KindProcess) {
			return sdk.NewNotFound(sdk.KindContainer, string(id))
		}
		return err
	}}
}

func destroyMissingFails(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w,
		destroyVolume: func(ctx context.Context, id sdk.VolumeID) error {
			there := false
			err := w.ListVolumes(ctx, sdk.Filter{ID: string(id)}, func(sdk.VolumeInfo) error { there = true; return nil })
			if err == nil && !there {
				err = sdk.NewNotFound(sdk.KindVolume, string(id))
			}
			if err != nil {
				return err
			}
			return w.DestroyVolume(ctx, id)
		},
		destroyContainer: func(ctx context.Context, id sdk.ContainerID) error {
			there := false
			err := w.ListContainers(ctx, sdk.Filter{ID: string(id)}, func(sdk.ContainerInfo) error { there = true; return nil })
			if err == nil && !there {
				err = sdk.NewNotFound(sdk.KindContainer, string(id))
			}
			if err != nil {
				return err
			}
			return w.DestroyContainer(ctx, id)
		},
	}
}
