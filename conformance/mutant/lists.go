package mutant

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"

	"github.com/slipway-run/slipway/sdk"
)

// listMutants are broken in the status, labels, and lists.
func listMutants() []Mutant {
	return []Mutant{
		{
			ID: "incarnation-per-call", Doc: "the incarnation is made anew on each call", Rule: 4,
			Killers: []string{"W06-status", "Q03-nothing-left"},
			breaks:  statusChanged(func(s *sdk.Status) { s.VolumeIncarnation = string(sdk.NewToken()) }),
		},
		{
			ID: "workers-end", Doc: "Workers returns once it has told what there is", Rule: 4, Near: true,
			Killers: []string{"W07-workers"}, runtime: func(rt sdk.Runtime) sdk.Runtime { return &workersEnd{Runtime: rt} },
		},
		{
			ID: "workers-end-unnoticed", Doc: "the stream of workers ends after the first event, unless its watcher has just gone", Rule: 4, Near: true,
			Killers: []string{"W07-workers"}, runtime: func(rt sdk.Runtime) sdk.Runtime { return &workersEnd{Runtime: rt, canceled: true} },
		},
		{
			ID: "filter-any", Doc: "a filter passes what has one of its labels", Rule: 10,
			Killers: []string{"W10-list-filter"}, breaks: filterAny,
		},
		{
			ID: "label-lost", Doc: "labels with an empty value are lost", Rule: 10,
			Killers: []string{"W19-labels-exact"}, breaks: labelLost,
		},
		{
			ID: "bad-labels-taken", Doc: "what has labels beyond the bounds is accepted", Rule: 10, Near: true,
			Killers: []string{"W20-labels-refused"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return specsTaken(w, func(_, _ error, labels map[string]string) bool { return sdk.CheckLabels(labels) != nil })
			},
		},
		{
			ID: "list-goes-on", Doc: "a list goes on after its callback's error, and forgets it", Rule: 14, Near: true,
			Killers: []string{"W21-list-callback"}, breaks: listGoesOn,
		},
		{
			ID: "list-misses", Doc: "a list leaves out one thing in twenty", Rule: 10,
			Killers: []string{"W22-list-churn"}, breaks: listMisses,
		},
		{
			ID: "unknown-is-negative", Doc: "what is used and not known is told as -1", Rule: 4,
			Killers: []string{"W28-capacity"}, breaks: statusChanged(func(s *sdk.Status) { s.Used.MemoryBytes = -1 }),
		},
		{
			ID: "use-written-once", Doc: "what is used is a number that somebody wrote down once", Rule: 4,
			Killers: []string{"W08-used-tracks"}, breaks: statusChanged(func(s *sdk.Status) { s.Used.Containers, s.Used.Volumes = 7, 7 }),
		},
		{
			ID: "feature-misspelt", Doc: "a feature's name has a capital", Rule: 14,
			Killers: []string{"W18-features-known"}, breaks: statusChanged(func(s *sdk.Status) { s.Features = append(s.Features, "Image.volume") }),
		},
		{
			ID: "feature-cut-short", Doc: "a feature's name lacks its last letter", Rule: 14,
			Killers: []string{"W18-features-known"}, breaks: statusChanged(func(s *sdk.Status) { s.Features = append(s.Features, "volatil") }),
		},
		{
			ID: "resource-type-unnamed", Doc: "a root file system is offered without its name", Rule: 14,
			Killers: []string{"W18-features-known"}, breaks: statusChanged(func(s *sdk.Status) { s.Features = append(s.Features, sdk.ResourceTypePrefix) }),
		},
		{
			ID: "nothing-is-not-found", Doc: "a list of nothing is an error", Rule: 10,
			Killers: []string{"W23-list-nothing"}, breaks: nothingIsNotFound,
		},
		{
			ID: "twenty-listed", Doc: "a list ends after twenty things", Rule: 10,
			Killers: []string{"W24-list-many"}, breaks: twentyListed,
		},
		{
			ID: "one-lister", Doc: "while something is listed, others cannot list", Rule: 10,
			Killers: []string{"W25-lists-at-once"}, breaks: oneLister,
		},
		{
			ID: "fifth-list-empty", Doc: "each fifth list of containers is empty", Rule: 10,
			Killers: []string{"W26-container-churn"}, breaks: fifthListEmpty,
		},
		{
			ID: "listed-as-made", Doc: "volumes are listed as open for ever", Rule: 10,
			Killers: []string{"W27-list-states", "V22-seal"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
					return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
						v.State = sdk.VolumeOpen
						return emit(v)
					})
				}}
			},
		},
		{
			ID: "list-twice", Doc: "a list gives the first thing again at its end", Rule: 10,
			Killers: []string{"W10-list-filter", "W22-list-churn"}, breaks: listTwice,
		},
	}
}

type workersEnd struct {
	sdk.Runtime
	canceled bool // it tells of the end of its context, where that has come
}

var errToldOnce = errors.New("the first event was told")

func (w *workersEnd) Workers(ctx context.Context, emit func(sdk.WorkerEvent) error) error {
	var own error
	err := w.Runtime.Workers(ctx, func(e sdk.WorkerEvent) error {
		if own = emit(e); own != nil {
			return own
		}
		return errToldOnce
	})
	switch {
	case err == errToldOnce && w.canceled:
		return ctx.Err()
	case err == errToldOnce:
		return nil
	}
	return err
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

func listGoesOn(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
			_ = emit(v) // this is what is broken
			return nil
		})
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

func listTwice(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		var first *sdk.VolumeInfo
		err := w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
			if first == nil {
				first = &v
			}
			return emit(v)
		})
		if err != nil || first == nil {
			return err
		}
		return emit(*first)
	}}
}

func statusChanged(change func(*sdk.Status)) func(sdk.Worker) sdk.Worker {
	return func(w sdk.Worker) sdk.Worker {
		return &broken{Worker: w, status: func(ctx context.Context) (sdk.Status, error) {
			s, err := w.Status(ctx)
			change(&s)
			return s, err
		}}
	}
}

func nothingIsNotFound(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		n := 0
		err := w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
			n++
			return emit(v)
		})
		if err == nil && n == 0 && (f.ID != "" || len(f.Labels) > 0) {
			return sdk.NewNotFound(sdk.KindVolume, f.ID)
		}
		return err
	}}
}

func twentyListed(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		n := 0
		return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
			n++
			if n > 20 {
				return nil
			}
			return emit(v)
		})
	}}
}

func oneLister(w sdk.Worker) sdk.Worker {
	listers := newCrowd()
	return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
		if len(f.Labels) == 0 { // the suite's own look at the worker
			return w.ListVolumes(ctx, f, emit)
		}
		if !listers.enter("") {
			return sdk.NewUnavailable(nil, "somebody else is listing")
		}
		defer listers.leave(ctx, "")
		return w.ListVolumes(ctx, f, emit)
	}}
}

func fifthListEmpty(w sdk.Worker) sdk.Worker {
	var n atomic.Int64
	return &broken{Worker: w, listContainers: func(ctx context.Context, f sdk.Filter, emit func(sdk.ContainerInfo) error) error {
		if len(f.Labels) > 0 && n.Add(1)%5 == 0 {
			return nil
		}
		return w.ListContainers(ctx, f, emit)
	}}
}
