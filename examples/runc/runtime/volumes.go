//go:build linux

package runtime

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// volumeRecord is what is kept of a volume beside its files.
type volumeRecord struct {
	Token  sdk.Token
	Labels map[string]string
	Parent sdk.VolumeID
	State  sdk.VolumeState
}

// data is the directory of a volume's files.
func (w *worker) data(id sdk.VolumeID) string { return w.volumes.path(string(id), "data") }

// CreateVolume makes a volume; a clone is copied, and half made meanwhile.
func (w *worker) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.Import != "" {
		return sdk.NewUnsupported(sdk.FeatureVolumeImport)
	}
	id := string(spec.ID)
	unlock, err := w.volumes.make(ctx, id)
	if err != nil {
		return w.broken(err, "volume", id)
	}
	defer unlock()
	rec, err := w.volumes.read(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return w.broken(err, "volume", id)
	case rec.Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindVolume, id)
	case rec.State != sdk.VolumeCreating:
		return nil
	}
	rec = volumeRecord{Token: spec.Token, Labels: maps.Clone(spec.Labels), Parent: spec.Clone, State: sdk.VolumeCreating}
	err = w.fill(ctx, spec, rec)
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		_ = w.volumes.discard(id) // what is left if that fails is half made
		return err
	}
	return w.broken(err, "volume", id)
}

// fill makes a volume's files. Its lock is held.
func (w *worker) fill(ctx context.Context, spec sdk.VolumeSpec, rec volumeRecord) error {
	if spec.Clone != "" {
		unlock, parent, err := w.shareVolume(ctx, spec.Clone)
		if err != nil {
			return err
		}
		defer unlock()
		if parent.State != sdk.VolumeSealed {
			return sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(spec.Clone),
				"volume %q cannot be cloned before it is sealed", spec.Clone)
		}
	}
	if err := w.volumes.write(string(spec.ID), rec); err != nil {
		return err
	}
	data := w.data(spec.ID)
	if err := os.RemoveAll(data); err != nil { // of an attempt that was cut off
		return err
	}
	if spec.Clone != "" {
		if err := copyTree(ctx, w.data(spec.Clone), data); err != nil {
			return err
		}
	} else if err := os.Mkdir(data, 0o755); err != nil {
		return err
	} else if err := os.Chmod(data, 0o755); err != nil {
		return err
	}
	if err := os.Chown(data, int(spec.UID), int(spec.GID)); err != nil {
		return err
	}
	rec.State = sdk.VolumeOpen
	return w.volumes.write(string(spec.ID), rec)
}

// SealVolume waits for archives and starts that are under way, and then has every container that can write the volume start nothing more.
func (w *worker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	unlock, err := w.volumes.lock(ctx, string(id), unix.LOCK_EX)
	if err != nil {
		return w.missing(err, sdk.KindVolume, string(id))
	}
	defer unlock()
	rec, err := w.volumes.read(string(id))
	if err != nil {
		return w.missing(err, sdk.KindVolume, string(id))
	}
	switch rec.State {
	case sdk.VolumeSealed:
		return nil
	case sdk.VolumeCreating:
		return halfMade(id)
	}
	unlockFiles, err := w.lockFiles(ctx, id, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlockFiles()
	err = w.containers.each(func(container string, c containerRecord) error {
		if c.State != sdk.ContainerReady || !c.writes(id) {
			return nil
		}
		err := w.Quiesce(ctx, sdk.ContainerID(container))
		switch {
		case errors.Is(err, sdk.ReasonInUse):
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
				"volume %q: a process lives in container %q, which can write it; end it before sealing", id, container)
		case sdk.IsNotFound(err, sdk.KindContainer), errors.Is(err, sdk.ReasonRecordLost): // nothing of it can run
			return nil
		}
		return err
	})
	if err != nil {
		return w.broken(err, "volume", string(id))
	}
	rec.State = sdk.VolumeSealed
	return w.broken(w.volumes.write(string(id), rec), "volume", string(id))
}

// ListVolumes emits what there is. Nobody counts the bytes.
func (w *worker) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var infos []sdk.VolumeInfo
	err := w.volumes.each(func(id string, rec volumeRecord) error {
		if filter.Match(id, rec.Labels) {
			infos = append(infos, sdk.VolumeInfo{ID: sdk.VolumeID(id), Token: rec.Token, Labels: rec.Labels, State: rec.State, Parent: rec.Parent, Bytes: -1})
		}
		return ctx.Err()
	})
	if err != nil {
		return w.broken(err, "worker", w.name)
	}
	for _, info := range infos {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// DestroyVolume takes the id away at once, and then the files.
func (w *worker) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	unlock, err := w.volumes.lock(ctx, string(id), unix.LOCK_EX)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer unlock()
		err = w.volumes.discard(string(id))
	}
	return w.broken(err, "volume", string(id))
}

// shareVolume keeps a volume from being sealed or destroyed until unlock.
func (w *worker) shareVolume(ctx context.Context, id sdk.VolumeID) (unlock func(), rec volumeRecord, err error) {
	unlock, err = w.volumes.lock(ctx, string(id), unix.LOCK_SH)
	if err != nil {
		return nil, volumeRecord{}, w.missing(err, sdk.KindVolume, string(id))
	}
	if rec, err = w.volumes.read(string(id)); err == nil && rec.State == sdk.VolumeCreating {
		err = halfMade(id)
	}
	if err != nil {
		unlock()
		return nil, volumeRecord{}, w.missing(err, sdk.KindVolume, string(id))
	}
	return unlock, rec, nil
}

func halfMade(id sdk.VolumeID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonCreating, sdk.KindVolume, string(id), "volume %q is half made; create it again or destroy it", id)
}

// missing makes an error of the contract from why a record could not be had.
func (w *worker) missing(err error, kind sdk.Kind, id string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return sdk.NewNotFound(kind, id)
	}
	return w.broken(err, string(kind), id)
}

// broken makes one from what went wrong on disk. Those of the contract and of contexts stay.
func (w *worker) broken(err error, kind, id string) error {
	_, ours := errors.AsType[*sdk.Error](err)
	switch {
	case err == nil, ours, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return sdk.NewExhausted(sdk.ReasonStorage, "%s %q: %v; make room below %s", kind, id, err, w.config.State)
	}
	return sdk.NewInternal(err, "%s %q: %v", kind, id, err)
}
