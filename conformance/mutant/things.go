package mutant

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/slipway-run/slipway/sdk"
)

// All gives every mutant. The slice is the caller's.
func All() []Mutant {
	return append(thingMutants(), processMutants()...)
}

// thingMutants are broken in volumes and containers.
func thingMutants() []Mutant {
	return []Mutant{
		{
			ID: "clone-shares", Doc: "what is written to a clone shows in its parent",
			Killers: []string{"V07-clone-isolated"}, breaks: cloneShares,
		},
		{
			ID: "volume-left", Doc: "destroying a volume only says that it did",
			Killers: []string{"V04-destroy", "Q03-nothing-left"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, destroyVolume: func(context.Context, sdk.VolumeID) error { return nil }}
			},
		},
		{
			ID: "container-left", Doc: "destroying a container only says that it did",
			Killers: []string{"C06-destroy", "Q03-nothing-left"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, destroyContainer: func(context.Context, sdk.ContainerID) error { return nil }}
			},
		},
		{
			ID: "label-lost", Doc: "labels with an empty value are lost",
			Killers: []string{"W19-labels-exact"}, breaks: labelLost,
		},
		{
			ID: "filter-any", Doc: "a filter passes what has one of its labels",
			Killers: []string{"W10-list-filter"}, breaks: filterAny,
		},
		{
			ID: "already-exists-missing", Doc: "another token's id is taken for one's own",
			Killers: []string{"D02-create-race", "D03-other-token", "P08-other-token"}, breaks: alreadyExistsMissing,
		},
		{
			ID: "not-found-of-container", Doc: "NotFound of a process is said to be of its container",
			Killers: []string{"E02-unknown-ids", "P02-exec-missing"}, breaks: notFoundOfContainer,
		},
		{
			ID: "seal-forgotten", Doc: "sealing a volume does nothing",
			Killers: []string{"V22-seal", "V23-seal-mounted"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, sealVolume: func(context.Context, sdk.VolumeID) error { return nil }}
			},
		},
		{
			ID: "read-only-ignored", Doc: "mounts are always writable",
			Killers: []string{"C20-mount-ro"}, breaks: readOnlyIgnored,
		},
		{
			ID: "limits-ignored", Doc: "limits that cannot be kept are ignored",
			Killers: []string{"Y02-undeclared"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
					spec.Limits = sdk.Resources{}
					return w.CreateContainer(ctx, spec, progress)
				}}
			},
		},
		{
			ID: "bad-archive-accepted", Doc: "an archive that is damaged or leaves the volume counts as done",
			Killers: []string{"Z01-dotdot", "F16-damaged"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
					err := w.StreamIn(ctx, id, in, r)
					if errors.Is(err, sdk.ReasonArchive) {
						return nil
					}
					return err
				}}
			},
		},
		{
			ID: "setuid-lost", Doc: "archives lose setuid, setgid and sticky bits",
			Killers: []string{"F01-modes", "V06-clone-equal"}, breaks: setuidLost,
		},
		{
			ID: "incarnation-per-call", Doc: "the incarnation is made anew on each call",
			Killers: []string{"W06-status", "Q03-nothing-left"}, breaks: incarnationPerCall,
		},
		{
			ID: "list-misses", Doc: "a list leaves out one thing in twenty",
			Killers: []string{"W22-list-churn"}, breaks: listMisses,
		},
		{
			ID: "caller-error-wrapped", Doc: "an error of the caller's reader or writer comes back in other words",
			Killers: []string{"F23-caller-errors"}, breaks: callerErrorWrapped,
		},
		{
			ID: "forgets-at-restart", Doc: "after its plugin was killed a worker lists nothing, under the same incarnation",
			Killers: []string{"R01-kill-idle"}, breaks: forgetsAtRestart,
		},
		{
			ID: "cancel-ignored", Doc: "a context that has ended ends no call",
			Killers: []string{"K01-cancelled-before"}, breaks: cancelIgnored,
		},
	}
}

func cloneShares(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	parents := make(map[sdk.VolumeID]sdk.VolumeID) // of clones
	written := make(map[sdk.VolumeID]sdk.VolumeID) // parent to the clone that was written
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			err := w.CreateVolume(ctx, spec)
			if err == nil && spec.Clone != "" {
				mu.Lock()
				defer mu.Unlock()
				parents[spec.ID] = spec.Clone
			}
			return err
		},
		streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			mu.Lock()
			if p, ok := parents[id]; ok {
				written[p] = id
			}
			mu.Unlock()
			return w.StreamIn(ctx, id, in, r)
		},
		streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
			mu.Lock()
			if c, ok := written[id]; ok {
				id = c
			}
			mu.Unlock()
			return w.StreamOut(ctx, id, out, dst)
		},
	}
}

func labelLost(w sdk.Worker) sdk.Worker {
	lose := func(labels map[string]string) map[string]string {
		labels = maps.Clone(labels)
		maps.DeleteFunc(labels, func(_, v string) bool { return v == "" })
		return labels
	}
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			spec.Labels = lose(spec.Labels)
			return w.CreateVolume(ctx, spec)
		},
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			spec.Labels = lose(spec.Labels)
			return w.CreateContainer(ctx, spec, progress)
		},
	}
}

func filterAny(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		return w.ListVolumes(ctx, sdk.Filter{ID: f.ID}, func(v sdk.VolumeInfo) error {
			for k, want := range f.Labels {
				if got, ok := v.Labels[k]; ok && got == want {
					return emit(v)
				}
			}
			if len(f.Labels) == 0 {
				return emit(v)
			}
			return nil
		})
	}}
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

func notFoundOfContainer(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, followProcess: func(ctx context.Context, id sdk.ContainerID, p sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
		err := w.FollowProcess(ctx, id, p, from, f)
		if sdk.IsNotFound(err, sdk.KindProcess) {
			return sdk.NewNotFound(sdk.KindContainer, string(id))
		}
		return err
	}}
}

func readOnlyIgnored(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		mounts := make([]sdk.Mount, len(spec.Mounts))
		for i, m := range spec.Mounts {
			m.ReadOnly = false
			mounts[i] = m
		}
		spec.Mounts = mounts
		return w.CreateContainer(ctx, spec, progress)
	}}
}

func setuidLost(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
		pr, pw := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			pw.CloseWithError(maskModes(pw, r))
		}()
		err := w.StreamIn(ctx, id, in, pr)
		pr.Close()
		<-done
		return err
	}}
}

// maskModes copies an archive without the bits beyond the permissions.
func maskModes(w io.Writer, r io.Reader) error {
	tr, tw := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return tw.Close()
		}
		if err != nil {
			return err
		}
		h.Mode &= 0o777
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, tr); err != nil {
			return err
		}
	}
}

func cancelIgnored(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			return w.CreateVolume(context.WithoutCancel(ctx), spec)
		},
		startProcess: func(ctx context.Context, id sdk.ContainerID, spec sdk.ProcessSpec) error {
			return w.StartProcess(context.WithoutCancel(ctx), id, spec)
		},
	}
}

func incarnationPerCall(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, status: func(ctx context.Context) (sdk.Status, error) {
		s, err := w.Status(ctx)
		s.VolumeIncarnation = string(sdk.NewToken())
		return s, err
	}}
}

func listMisses(w sdk.Worker) sdk.Worker {
	var n atomic.Int64
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
			if n.Add(1)%20 == 0 {
				return nil
			}
			return emit(v)
		})
	}}
}

func callerErrorWrapped(w sdk.Worker) sdk.Worker {
	wrap := func(err error) error {
		if err == nil {
			return nil
		}
		return sdk.NewInternal(err, "streaming: %v", err)
	}
	return &broken{Worker: w,
		streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			return wrap(w.StreamIn(ctx, id, in, r))
		},
		streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
			return wrap(w.StreamOut(ctx, id, out, dst))
		},
	}
}

// forgetful lists nothing once it has crashed.
type forgetful struct {
	broken
	crashed atomic.Bool
}

func forgetsAtRestart(w sdk.Worker) sdk.Worker {
	b := &forgetful{}
	b.broken = broken{Worker: w,
		listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
			if b.crashed.Load() {
				return nil
			}
			return w.ListVolumes(ctx, f, emit)
		},
		listContainers: func(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
			if b.crashed.Load() {
				return nil
			}
			return w.ListContainers(ctx, f, emit)
		},
	}
	return b
}

// Crashed implements Crasher.
func (b *forgetful) Crashed() { b.crashed.Store(true) }
