package memory

import (
	"context"
	"io"
	"maps"
	"math"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
	"github.com/slipway-run/slipway/sdk"
)

// volume is a tree under an id.
type volume struct {
	id     sdk.VolumeID
	token  sdk.Token
	labels map[string]string
	parent sdk.VolumeID
	tree   *tree.Tree

	holds   int // its id, its mounts, and the calls that are reading or writing it; its tree is released after the last
	writers int // running processes in containers that mount it writable
}

// CreateVolume makes a volume whole or not at all.
func (w *worker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	switch {
	case spec.Import != "":
		return sdk.NewUnsupported(sdk.FeatureVolumeImport)
	case spec.Privileged:
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	case spec.UID > math.MaxUint32 || spec.GID > math.MaxUint32:
		return sdk.NewInvalid(sdk.ReasonSpec, "volume %q: owner %d:%d is out of range", spec.ID, spec.UID, spec.GID)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.volumes[spec.ID]; ok {
		if v.token != spec.Token {
			return sdk.NewAlreadyExists(sdk.KindVolume, string(spec.ID))
		}
		return nil
	}
	t, err := w.newTree(spec)
	if err != nil {
		return err
	}
	w.volumes[spec.ID] = &volume{
		id: spec.ID, token: spec.Token, labels: maps.Clone(spec.Labels), parent: spec.Clone,
		tree: t, holds: 1,
	}
	return nil
}

func (w *worker) newTree(spec sdk.VolumeSpec) (*tree.Tree, error) {
	if spec.Clone == "" {
		t, err := tree.New(w.budget, tree.Options{UID: uint32(spec.UID), GID: uint32(spec.GID)})
		if err != nil {
			return nil, w.noRoom("volume %q", spec.ID)
		}
		return t, nil
	}
	parent, ok := w.volumes[spec.Clone]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindVolume, string(spec.Clone))
	}
	t := parent.tree.Clone()
	if err := chownRoot(t, spec.UID, spec.GID); err != nil {
		t.Release()
		return nil, sdk.NewInternal(err, "volume %q: %v", spec.ID, err)
	}
	return t, nil
}

// SealVolume makes even open files of the volume read-only.
func (w *worker) SealVolume(_ context.Context, id sdk.VolumeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.volume(id)
	if err != nil {
		return err
	}
	if v.writers > 0 {
		return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
			"volume %q: a process that can write it is running; end it before sealing", id)
	}
	v.tree.Seal()
	return nil
}

// ListVolumes emits the volumes as they are at one moment.
func (w *worker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	for _, info := range w.selectVolumes(filter) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) selectVolumes(filter sdk.Filter) []sdk.VolumeInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	var infos []sdk.VolumeInfo
	for id, v := range w.volumes {
		if !filter.Match(string(id), v.labels) {
			continue
		}
		state := sdk.VolumeOpen
		if v.tree.Sealed() {
			state = sdk.VolumeSealed
		}
		infos = append(infos, sdk.VolumeInfo{
			ID: id, Token: v.token, Labels: maps.Clone(v.labels), State: state,
			Parent: v.parent, Bytes: v.tree.Usage().Bytes,
		})
	}
	return infos
}

// DestroyVolume takes away the id at once. Containers that mount the volume, and calls that read it, keep its content
// until they end.
func (w *worker) DestroyVolume(_ context.Context, id sdk.VolumeID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if v, ok := w.volumes[id]; ok {
		delete(w.volumes, id)
		v.release()
	}
	return nil
}

// StreamIn unpacks an archive; archive.go says which.
func (w *worker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	v, err := w.hold(id)
	if err != nil {
		return err
	}
	unpacked := make(chan error, 1)
	go func() {
		err := w.unpack(ctx, v, in, r)
		w.release(v)
		unpacked <- err
	}()
	select {
	case err := <-unpacked:
		if err != nil {
			return err
		}
	case <-ctx.Done(): // r may be blocked; what it yields later goes nowhere
		return ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.volumes[id] != v {
		return sdk.NewNotFound(sdk.KindVolume, string(id)) // destroyed meanwhile
	}
	return nil
}

// StreamOut packs the volume as it is when the call begins.
func (w *worker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, wr io.Writer) error {
	v, err := w.hold(id)
	if err != nil {
		return err
	}
	defer w.release(v)
	return w.pack(ctx, v, out, wr)
}

// volume needs the mutex.
func (w *worker) volume(id sdk.VolumeID) (*volume, error) {
	v, ok := w.volumes[id]
	if !ok {
		return nil, sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	return v, nil
}

// hold gives a volume that stays whole until release.
func (w *worker) hold(id sdk.VolumeID) (*volume, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, err := w.volume(id)
	if err != nil {
		return nil, err
	}
	v.holds++
	return v, nil
}

func (w *worker) release(v *volume) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v.release()
}

// release needs the worker's mutex.
func (v *volume) release() {
	if v.holds--; v.holds == 0 {
		v.tree.Release()
	}
}

func (w *worker) noRoom(what string, args ...any) error {
	args = append(args, w.budget.Used(), w.budget.Limit())
	return sdk.NewExhausted(sdk.ReasonStorage, what+": %d of %d bytes for volumes are taken; destroy some, or "+moreMemory, args...)
}

// moreMemory says where the limit is set.
const moreMemory = `raise "memory": config { memory = "4GiB" } in the plugin block (in the worker's, if it has its own), or the world's --memory`
