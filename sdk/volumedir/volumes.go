//go:build linux

package volumedir

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
)

// CreateVolume makes a volume; a clone is copied, and half made meanwhile. Imports are Unsupported.
func (s *Store) CreateVolume(ctx context.Context, spec sdk.VolumeSpec) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := spec.Validate(); err != nil {
		return err
	}
	if spec.Import != "" {
		return sdk.NewUnsupported(sdk.FeatureVolumeImport)
	}
	if spec.Privileged && !s.o.Privileged {
		return sdk.NewUnsupported(sdk.FeaturePrivileged)
	}
	id := string(spec.ID)
	unlock, err := s.shelf.Make(ctx, id)
	if err != nil {
		return Fault(err, sdk.KindVolume, id)
	}
	defer unlock()
	rec, err := s.shelf.Read(id)
	begun := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return Fault(err, sdk.KindVolume, id)
	case rec.Token != spec.Token:
		return sdk.NewAlreadyExists(sdk.KindVolume, id)
	case rec.State != sdk.VolumeCreating:
		return nil
	}
	err = s.make(ctx, spec)
	if err != nil && !begun {
		_ = s.shelf.Discard(id) // if that fails, what is left is half made
	}
	return Fault(err, sdk.KindVolume, id)
}

// make makes a volume's files, over what an attempt that was cut off has left. Its lock is held.
func (s *Store) make(ctx context.Context, spec sdk.VolumeSpec) error {
	if spec.Clone != "" {
		unlock, err := s.shareParent(ctx, spec.Clone)
		if err != nil {
			return err
		}
		defer unlock()
	}
	id := string(spec.ID)
	rec := record{Token: spec.Token, Labels: maps.Clone(spec.Labels), Parent: spec.Clone, State: sdk.VolumeCreating}
	if err := s.shelf.Write(id, rec); err != nil {
		return err
	}
	data := s.Dir(spec.ID)
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	var err error
	if spec.Clone != "" {
		err = Copy(ctx, s.Dir(spec.Clone), data)
	} else if err = os.Mkdir(data, 0o755); err == nil {
		err = os.Chmod(data, 0o755) // whatever the umask
	}
	if err != nil {
		return err
	}
	if !s.o.Archives.DropOwners {
		if err := os.Chown(data, int(spec.UID), int(spec.GID)); err != nil {
			return err
		}
	}
	rec.State = sdk.VolumeOpen
	return s.shelf.Write(id, rec)
}

// shareParent shares a volume that is to be cloned. What is not sealed is refused without waiting for it: it may be somebody's who waits for this
// one.
func (s *Store) shareParent(ctx context.Context, id sdk.VolumeID) (unlock func(), err error) {
	rec, err := s.shelf.Read(string(id))
	if err == nil && rec.State != sdk.VolumeSealed {
		return nil, sdk.NewFailedPrecondition(sdk.ReasonNotSealed, sdk.KindVolume, string(id), "volume %q cannot be cloned before it is sealed", id)
	}
	if err == nil {
		unlock, _, err = s.share(ctx, id) // sealed is for ever
	}
	return unlock, missing(err, id)
}

// SealVolume waits for archives and starts that are under way, and then has every container that can write the volume start nothing more.
func (s *Store) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	unlock, err := s.shelf.Lock(ctx, string(id), shelf.Exclusive)
	if err != nil {
		return missing(err, id)
	}
	defer unlock()
	rec, err := s.shelf.Read(string(id))
	if err != nil {
		return missing(err, id)
	}
	switch rec.State {
	case sdk.VolumeSealed:
		return nil
	case sdk.VolumeCreating:
		return halfMade(id)
	}
	unlockFiles, err := s.lockFiles(ctx, id, shelf.Exclusive)
	if err != nil {
		return err
	}
	defer unlockFiles()
	if s.o.Quiesce != nil {
		if err := s.o.Quiesce(ctx, id); err != nil {
			return Fault(err, sdk.KindVolume, string(id))
		}
	}
	rec.State = sdk.VolumeSealed
	return Fault(s.shelf.Write(string(id), rec), sdk.KindVolume, string(id))
}

// ListVolumes emits what there is. Nobody counts the bytes.
func (s *Store) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var infos []sdk.VolumeInfo
	err := s.shelf.Each(func(id string, rec record) error {
		if filter.Match(id, rec.Labels) {
			infos = append(infos, sdk.VolumeInfo{ID: sdk.VolumeID(id), Token: rec.Token, Labels: rec.Labels, State: rec.State, Parent: rec.Parent, Bytes: -1})
		}
		return ctx.Err()
	})
	if err != nil {
		return Fault(err, sdk.KindVolume, "")
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

// DestroyVolume takes the id away at once, and then the files. Where the machine has something mounted in the volume nothing is done, and the
// error, which is Internal, names it.
func (s *Store) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	unlock, err := s.shelf.Lock(ctx, string(id), shelf.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer unlock()
		err = s.shelf.Discard(string(id))
	}
	return Fault(err, sdk.KindVolume, string(id))
}
