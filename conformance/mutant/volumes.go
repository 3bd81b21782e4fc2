package mutant

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// volumeMutants are broken in the life of a volume.
func volumeMutants() []Mutant {
	return []Mutant{
		{
			ID: "volume-not-empty", Doc: "a new volume has a directory lost+found", Rule: 9,
			Killers: []string{"V01-empty"}, breaks: volumeNotEmpty,
		},
		{
			ID: "volume-left", Doc: "destroying a volume only says that it did", Rule: 1,
			Killers: []string{"V04-destroy", "Q03-nothing-left"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, destroyVolume: func(context.Context, sdk.VolumeID) error { return nil }}
			},
		},
		{
			ID: "clone-shares", Doc: "what is written to a clone shows in its parent", Rule: 9,
			Killers: []string{"V07-clone-isolated"}, breaks: cloneShares,
		},
		{
			ID: "clone-orphaned", Doc: "a clone does not tell its parent", Rule: 9,
			Killers: []string{"V06-clone-equal"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, listVolumes: func(ctx context.Context, f sdk.Filter, emit func(sdk.VolumeInfo) error) error {
					return w.ListVolumes(ctx, f, func(v sdk.VolumeInfo) error {
						v.Parent = ""
						return emit(v)
					})
				}}
			},
		},
		{
			ID: "clone-of-nothing", Doc: "a clone of a volume that is not there is an empty one", Rule: 9,
			Killers: []string{"V08-clone-missing"}, breaks: cloneOfNothing,
		},
		{
			ID: "failure-leaks", Doc: "a creation that fails leaves a volume behind", Rule: 9,
			Killers: []string{"V08-clone-missing"}, breaks: failureLeaks,
		},
		{
			ID: "clone-depth", Doc: "a chain of clones ends at eight", Rule: 9,
			Killers: []string{"V10-clone-chain"}, breaks: cloneDepth,
		},
		{
			ID: "removals-forgotten", Doc: "what was removed in a clone is there again when it is read", Rule: 9,
			Killers: []string{"V11-clone-changes"}, breaks: removalsForgotten,
		},
		{
			ID: "live-clone-follows", Doc: "what is written to an open volume shows in its clones", Rule: 9,
			Killers: []string{"V21-clone-open"}, breaks: liveCloneFollows,
		},
		{
			ID: "seal-forgotten", Doc: "sealing a volume does nothing", Rule: 9,
			Killers: []string{"V22-seal", "V23-seal-mounted"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, sealVolume: func(context.Context, sdk.VolumeID) error { return nil }}
			},
		},
		{
			ID: "in-use-ignored", Doc: "sealing under a process that can write says that it did", Rule: 9,
			Killers: []string{"V24-seal-in-use"},
			breaks: func(w sdk.Worker) sdk.Worker {
				return &broken{Worker: w, sealVolume: func(ctx context.Context, id sdk.VolumeID) error {
					err := w.SealVolume(ctx, id)
					if errors.Is(err, sdk.ReasonInUse) {
						return nil
					}
					return err
				}}
			},
		},
	}
}

func volumeNotEmpty(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		if err := w.CreateVolume(ctx, spec); err != nil || spec.Clone != "" {
			return err
		}
		var b bytes.Buffer
		t := tar.NewWriter(&b)
		if err := t.WriteHeader(&tar.Header{Name: "lost+found/", Typeflag: tar.TypeDir, Mode: 0o700}); err != nil {
			return err
		}
		if err := t.Close(); err != nil {
			return err
		}
		return w.StreamIn(ctx, spec.ID, sdk.StreamIn{}, &b)
	}}
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

func cloneOfNothing(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		err := w.CreateVolume(ctx, spec)
		if spec.Clone == "" || !sdk.IsNotFound(err, sdk.KindVolume) {
			return err
		}
		spec.Clone = ""
		return w.CreateVolume(ctx, spec)
	}}
}

func failureLeaks(w sdk.Worker) sdk.Worker {
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		err := w.CreateVolume(ctx, spec)
		if sdk.IsNotFound(err, sdk.KindVolume) {
			spec.Clone = ""
			return errors.Join(err, w.CreateVolume(ctx, spec))
		}
		return err
	}}
}

func cloneDepth(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	depth := make(map[sdk.VolumeID]int)
	return &broken{Worker: w, createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
		mu.Lock()
		d := depth[spec.Clone]
		mu.Unlock()
		if d >= 8 {
			return sdk.NewExhausted(sdk.ReasonStorage, "volume %q: too many layers", spec.ID)
		}
		err := w.CreateVolume(ctx, spec)
		if err == nil && spec.Clone != "" {
			mu.Lock()
			defer mu.Unlock()
			depth[spec.ID] = d + 1
		}
		return err
	}}
}

func liveCloneFollows(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	clones := make(map[sdk.VolumeID][]sdk.VolumeID)
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			err := w.CreateVolume(ctx, spec)
			if err == nil && spec.Clone != "" {
				mu.Lock()
				defer mu.Unlock()
				clones[spec.Clone] = append(clones[spec.Clone], spec.ID)
			}
			return err
		},
		streamIn: func(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
			archive, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			mu.Lock()
			ids := append([]sdk.VolumeID{id}, clones[id]...)
			mu.Unlock()
			for _, id := range ids {
				if err := w.StreamIn(ctx, id, in, bytes.NewReader(archive)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func removalsForgotten(w sdk.Worker) sdk.Worker {
	var mu sync.Mutex
	parents := make(map[sdk.VolumeID]sdk.VolumeID)
	return &broken{Worker: w,
		createVolume: func(ctx context.Context, spec sdk.VolumeSpec) error {
			mu.Lock()
			parents[spec.ID] = spec.Clone
			mu.Unlock()
			return w.CreateVolume(ctx, spec)
		},
		streamOut: func(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, dst io.Writer) error {
			mu.Lock()
			parent := parents[id]
			mu.Unlock()
			if parent == "" || out.Path != "" || out.Encoding != "" {
				return w.StreamOut(ctx, id, out, dst)
			}
			var below, above bytes.Buffer
			if err := errors.Join(w.StreamOut(ctx, parent, out, &below), w.StreamOut(ctx, id, out, &above)); err != nil {
				return err
			}
			return overlay(dst, &below, &above)
		},
	}
}

// overlay writes one archive of two: what is in the second, and of the first what the second does not name.
func overlay(dst io.Writer, below, above *bytes.Buffer) error {
	named := make(map[string]bool)
	t := tar.NewWriter(dst)
	for i, in := range []*bytes.Buffer{above, below} {
		r := tar.NewReader(in)
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if i == 1 && named[h.Name] {
				continue
			}
			named[h.Name] = true
			if err := t.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.Copy(t, r); err != nil {
				return err
			}
		}
	}
	return t.Close()
}
