package mutant

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// mountMutants are broken in volumes in containers, and in what clones have of their parents.
func mountMutants() []Mutant {
	return []Mutant{
		{
			ID: "sixteen-mounts", Doc: "mounts beyond the sixteenth are left out", Rule: 9,
			Killers: []string{"C28-mount-many"}, breaks: mounts(func(ms []sdk.Mount) []sdk.Mount { return ms[:min(len(ms), 16)] }),
		},
		{
			ID: "mounts-by-volume", Doc: "a volume that is mounted twice is there once", Rule: 9,
			Killers: []string{"C29-mount-twice"}, breaks: mounts(func(ms []sdk.Mount) []sdk.Mount {
				seen := make(map[sdk.VolumeID]bool)
				return slices.DeleteFunc(ms, func(m sdk.Mount) bool {
					again := seen[m.Volume]
					seen[m.Volume] = true
					return again
				})
			}),
		},
		{
			ID: "volumes-die-too", Doc: "with a container go the volumes that it mounted writable", Rule: 9,
			Killers: []string{"C30-mount-outlives"}, breaks: volumesDieToo,
		},
		{
			ID: "env-bounded", Doc: "of the environment 512 variables are kept", Rule: 13,
			Killers: []string{"P34-env-many"}, breaks: specChanged(func(s *sdk.ProcessSpec) { s.Env = s.Env[:min(len(s.Env), 512)] }),
		},
		{
			ID: "home-wins", Doc: "HOME is what the plugin thinks, whatever was asked for", Rule: 13,
			Killers: []string{"P36-env-defaults"}, breaks: specChanged(func(s *sdk.ProcessSpec) {
				s.Env = append(slices.DeleteFunc(slices.Clone(s.Env), func(e string) bool { return strings.HasPrefix(e, "HOME=") }), "HOME=/")
			}),
		},
		{
			ID: "labels-inherited", Doc: "a clone has its parent's labels beside its own", Rule: 9,
			Killers: []string{"V16-clone-labels"}, breaks: labelsInherited,
		},
		{
			ID: "empty-is-missing", Doc: "an empty volume cannot be cloned, as if it were not there", Rule: 9,
			Killers: []string{"V19-clone-empty"}, breaks: emptyIsMissing,
		},
		{
			ID: "bytes-zero", Doc: "the size of every volume is 0", Rule: 10,
			Killers: []string{"V25-bytes"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
					return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
						v.Bytes = 0
						return emit(v)
					})
				}}
			},
		},
		{
			ID: "parent-emptied", Doc: "with a clone goes what it shared with its parent", Rule: 9,
			Killers: []string{"V29-destroy-clones"}, breaks: parentEmptied,
		},
		{
			ID: "clones-one-by-one", Doc: "a volume that is being cloned cannot be cloned by anybody else", Rule: 9,
			Killers: []string{"N05-clone-race"}, breaks: clonesOneByOne,
		},
		{
			ID: "mount-follows-link", Doc: "the directory for a mount is made where a link leads", Rule: 9,
			Killers: []string{"Z11-mount-link"}, breaks: mountFollowsLink,
		},
	}
}

func volumesDieToo(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	mounted := make(map[sdk.ContainerID][]sdk.Mount)
	return &broken{Worker: w,
		createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
			mu.Lock()
			mounted[spec.ID] = slices.Clone(spec.Mounts)
			mu.Unlock()
			return w.CreateContainer(ctx, spec, progress)
		},
		destroyContainer: func(ctx context.Context, id sdk.ContainerID) error {
			err := w.DestroyContainer(ctx, id)
			mu.Lock()
			ms := mounted[id]
			mu.Unlock()
			for _, m := range ms {
				if !m.ReadOnly && err == nil {
					err = w.DestroyVolume(ctx, m.Volume)
				}
			}
			return err
		},
	}
}

func labelsInherited(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		if spec.Clone == "" {
			return w.CreateVolume(ctx, spec)
		}
		labels := make(map[string]string)
		err := w.ListVolumes(ctx, sdk.Filter{ID: string(spec.Clone)}, func(v sdk.VolumeInfo) error {
			maps.Copy(labels, v.Labels)
			return nil
		})
		if err != nil {
			return err
		}
		maps.Copy(labels, spec.Labels)
		spec.Labels = labels
		return w.CreateVolume(ctx, spec)
	}}
}

func emptyIsMissing(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		if spec.Clone == "" {
			return w.CreateVolume(ctx, spec)
		}
		var b bytes.Buffer
		if err := w.StreamOut(ctx, spec.Clone, sdk.StreamOut{}, &b); err != nil {
			return err
		}
		empty, err := isEmpty(&b)
		if err != nil {
			return err
		}
		if empty {
			return sdk.NewNotFound(sdk.KindVolume, string(spec.Clone))
		}
		return w.CreateVolume(ctx, spec)
	}}
}

// isEmpty tells whether an archive has no entry but the root's own.
func isEmpty(archive io.Reader) (empty bool, err error) {
	empty = true
	err = rewrite(io.Discard, archive, func(h *tar.Header, data []byte) ([]byte, bool) {
		empty = empty && path.Clean(h.Name) == "."
		return data, false
	})
	return empty, err
}

func parentEmptied(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	parents := make(map[sdk.VolumeID]sdk.VolumeID)
	emptied := make(map[sdk.VolumeID]bool)
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			mu.Lock()
			parents[spec.ID] = spec.Clone
			mu.Unlock()
			return w.CreateVolume(ctx, spec)
		},
		destroyVolume: func(ctx context.Context, id sdk.VolumeID) error {
			mu.Lock()
			emptied[parents[id]] = true
			mu.Unlock()
			return w.DestroyVolume(ctx, id)
		},
		streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
			mu.Lock()
			gone := emptied[id]
			mu.Unlock()
			if gone {
				return tar.NewWriter(dst).Close()
			}
			return w.StreamOut(ctx, id, out, dst)
		},
	}
}

func clonesOneByOne(w sdk.Worker) sdk.Worker {
	clones := newCrowd()
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		if spec.Clone == "" {
			return w.CreateVolume(ctx, spec)
		}
		if !clones.enter(string(spec.Clone)) {
			return sdk.NewUnavailable(nil, "volume %q is being cloned", spec.Clone)
		}
		defer clones.leave(ctx, string(spec.Clone))
		return w.CreateVolume(ctx, spec)
	}}
}

// mountFollowsLink touches nothing but canaries, as those of isolation.
func mountFollowsLink(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createContainer: func(ctx context.Context, spec sdk.ContainerSpec, progress func(sdk.Progress)) error {
		for _, outer := range spec.Mounts {
			for _, inner := range spec.Mounts {
				rest, below := strings.CutPrefix(inner.Path, outer.Path+"/")
				if !below {
					continue
				}
				name, _, _ := strings.Cut(rest, "/")
				var b bytes.Buffer
				if w.StreamOut(ctx, outer.Volume, sdk.StreamOut{Path: name}, &b) != nil {
					continue
				}
				if h, err := tar.NewReader(&b).Next(); err == nil && h.Typeflag == tar.TypeSymlink {
					if dir, ok := canary(path.Join(h.Linkname, "mounted")); ok {
						_ = os.Mkdir(dir, 0o700) // if it cannot be made, the case sees that it was not
					}
				}
			}
		}
		return w.CreateContainer(ctx, spec, progress)
	}}
}
