//go:build linux

package onnomad

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/volumetar"
)

// volume is the record of a directory of this machine.
type volume struct {
	Spec  sdk.VolumeSpec
	State sdk.VolumeState
}

// files are those of a volume.
type files = volumetar.Root

func (w *worker) volumePath(id sdk.VolumeID, names ...string) string {
	return filepath.Join(append([]string{w.State, "volumes", string(id)}, names...)...)
}

func (w *worker) volume(id sdk.VolumeID) (v volume, err error) {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return v, err
	}
	text, err := os.ReadFile(w.volumePath(id, "record"))
	if errors.Is(err, os.ErrNotExist) {
		return v, sdk.NewNotFound(sdk.KindVolume, string(id))
	}
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(text, &v)
}

func (w *worker) keep(v volume) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	next := w.volumePath(v.Spec.ID, "record.new")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, w.volumePath(v.Spec.ID, "record"))
}

func (w *worker) withFiles(id sdk.VolumeID, f func(*files) error) error {
	root, err := volumetar.Open(w.volumePath(id, "data"), volumetar.Options{})
	if err != nil {
		return err
	}
	defer root.Close()
	return f(root)
}

// transfer hands on what one side packs to the other.
func transfer(pack func(io.Writer) error, unpack func(io.Reader) error) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(w)
		w.CloseWithError(err)
		packed <- err
	}()
	err := unpack(r)
	r.CloseWithError(io.ErrClosedPipe)
	return cmp.Or(err, <-packed)
}

func (w *worker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if err := cmp.Or(ctx.Err(), spec.Validate()); err != nil {
		return err
	}
	switch {
	case spec.Import != "":
		return sdk.NewUnsupported(sdk.FeatureVolumeImport)
	case spec.Privileged:
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	}
	w.volumes.Lock()
	defer w.volumes.Unlock()
	v, err := w.volume(spec.ID)
	switch {
	case err != nil && !sdk.IsNotFound(err, sdk.KindVolume):
		return err
	case err == nil && v.Spec.Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindVolume, string(spec.ID))
	case err == nil && v.State != sdk.VolumeCreating:
		return nil
	}
	if spec.Clone != "" {
		parent, err := w.volume(spec.Clone)
		if err != nil {
			return err
		}
		if parent.State != sdk.VolumeSealed {
			return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(spec.Clone), "volume %q cannot be cloned before it is sealed", spec.Clone)
		}
	}
	data := w.volumePath(spec.ID, "data")
	v = volume{Spec: spec, State: sdk.VolumeCreating}
	if err := cmp.Or(os.MkdirAll(data, 0o755), w.keep(v)); err != nil {
		return err
	}
	if spec.Clone != "" {
		err := w.withFiles(spec.Clone, func(from *files) error {
			return w.withFiles(spec.ID, func(to *files) error {
				return transfer(func(out io.Writer) error { return from.Pack(ctx, "", out) }, func(in io.Reader) error { return to.Unpack(ctx, "", in) })
			})
		})
		if err != nil {
			return err
		}
	}
	v.State = sdk.VolumeOpen
	return cmp.Or(os.Chown(data, int(spec.UID), int(spec.GID)), w.keep(v))
}

func (w *worker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w.volumes.Lock()
	defer w.volumes.Unlock()
	v, err := w.volume(id)
	if err != nil || v.State == sdk.VolumeSealed {
		return err
	}
	holder, m, err := w.holder(ctx, id)
	if err != nil {
		return err
	}
	if holder != "" {
		if err := w.Quiesce(ctx, holder); err != nil {
			return err
		}
		if err := w.copyBack(ctx, holder, m); err != nil {
			return err
		}
	}
	v.State = sdk.VolumeSealed
	return w.keep(v)
}

// holder finds the container in which a volume is written.
func (w *worker) holder(ctx context.Context, id sdk.VolumeID) (sdk.ContainerID, sdk.Mount, error) {
	all, err := w.containers(ctx)
	for _, c := range all {
		for _, m := range c.spec.Mounts {
			if m.Volume == id && !m.ReadOnly && c.alloc != "" && !c.stopped {
				return c.spec.ID, m, nil
			}
		}
	}
	return "", sdk.Mount{}, err
}

// copyBack brings what a container wrote into the volume.
func (w *worker) copyBack(ctx context.Context, id sdk.ContainerID, m sdk.Mount) error {
	next := w.volumePath(m.Volume, "next")
	if err := os.RemoveAll(next); err != nil { // of a plugin that was killed
		return err
	}
	if err := os.Mkdir(next, 0o755); err != nil {
		return err
	}
	root, err := volumetar.Open(next, volumetar.Options{})
	if err != nil {
		return err
	}
	defer root.Close()
	err = transfer(func(out io.Writer) error { return w.Driver.StreamOut(ctx, id, m.Path, "", out) },
		func(in io.Reader) error { return root.Unpack(ctx, "", in) })
	if err != nil {
		return err
	}
	if err := unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, w.volumePath(m.Volume, "data"), unix.RENAME_EXCHANGE); err != nil {
		return err
	}
	return os.RemoveAll(next)
}

func (w *worker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	entries, err := os.ReadDir(filepath.Join(w.State, "volumes"))
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	for _, e := range entries {
		v, err := w.volume(sdk.VolumeID(e.Name()))
		if sdk.IsNotFound(err, sdk.KindVolume) {
			continue // just being made or removed
		}
		if err != nil {
			return err
		}
		if !filter.Match(e.Name(), v.Spec.Labels) {
			continue
		}
		info := sdk.VolumeInfo{ID: v.Spec.ID, Token: v.Spec.Token, Labels: v.Spec.Labels, State: v.State, Parent: v.Spec.Clone, Bytes: -1}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *worker) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if err := cmp.Or(ctx.Err(), sdk.CheckID(sdk.KindVolume, string(id))); err != nil {
		return err
	}
	w.volumes.Lock()
	defer w.volumes.Unlock()
	return cmp.Or(remove(w.volumePath(id, "record")), os.RemoveAll(w.volumePath(id)))
}

// remove removes a file that need not be there.
func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (w *worker) StreamIn(ctx context.Context, id sdk.VolumeID, in sdk.StreamIn, r io.Reader) error {
	v, err := w.streamed(ctx, id, in.Encoding)
	if err != nil {
		return err
	}
	if v.State == sdk.VolumeSealed {
		return sealed(id)
	}
	return w.withFiles(id, func(f *files) error { return f.Unpack(ctx, in.Path, r) })
}

// StreamOut reads an open volume where it is written.
func (w *worker) StreamOut(ctx context.Context, id sdk.VolumeID, out sdk.StreamOut, to io.Writer) error {
	v, err := w.streamed(ctx, id, out.Encoding)
	if err != nil {
		return err
	}
	if v.State != sdk.VolumeSealed {
		holder, m, err := w.holder(ctx, id)
		if err != nil {
			return err
		}
		if holder != "" {
			return w.Driver.StreamOut(ctx, holder, m.Path, out.Path, to)
		}
	}
	return w.withFiles(id, func(f *files) error { return f.Pack(ctx, out.Path, to) })
}

func (w *worker) streamed(ctx context.Context, id sdk.VolumeID, encoding string) (volume, error) {
	if err := ctx.Err(); err != nil {
		return volume{}, err
	}
	if encoding != "" && encoding != sdk.EncodingRaw {
		return volume{}, sdk.NewInvalid(sdk.ReasonEncoding, "volume %q: encoding %q is not raw", id, encoding)
	}
	return w.volume(id)
}

func sealed(id sdk.VolumeID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(id), "volume %q is sealed", id)
}
