package claim

import (
	"context"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// SealVolume is that of [sdk.Worker]. It waits for archives on their way into the volume and for containers that are being made with it, and
// then calls quiesce, which sees to it that no process writes the volume any more; its error ends the call and comes back unchanged.
func (s *Store) SealVolume(ctx context.Context, id sdk.VolumeID, quiesce func(context.Context) error) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	unlock, err := s.locks.exclusive(ctx, string(id))
	if err != nil {
		return err
	}
	defer unlock()
	v, err := s.volume(ctx, string(id))
	if err != nil {
		return err
	}
	switch v.State {
	case sdk.VolumeSealed:
		return nil
	case sdk.VolumeCreating:
		return halfMade(v.ID)
	}
	if quiesce != nil {
		if err := quiesce(ctx); err != nil {
			return err
		}
	}
	return s.set(ctx, v.ID, propState, stateSealed)
}

// DestroyVolume is that of [sdk.Worker]. Streams into the volume end, as NotFound.
func (s *Store) DestroyVolume(ctx context.Context, id sdk.VolumeID) error {
	if err := sdk.CheckID(sdk.KindVolume, string(id)); err != nil {
		return err
	}
	unlock, err := s.locks.destroy(ctx, string(id), sdk.NewNotFound(sdk.KindVolume, string(id)))
	if err != nil {
		return err
	}
	defer unlock()
	v, ok, err := s.get(ctx, string(id))
	if err != nil {
		return err
	}
	if ok && !v.ours() {
		return nil // somebody else's: for the host there is no such volume
	}
	return s.remove(ctx, string(id))
}

// remove destroys a volume, and the making of it.
func (s *Store) remove(ctx context.Context, handle string) error {
	s.memo.drop(handle)
	there, err := s.destroy(ctx, handle)
	if err != nil || there && !s.found.isPending(handle) {
		return err
	}
	// What is being made is not there yet. Its result may have come in between.
	making, err := s.forget(ctx, handle)
	if err != nil {
		return err
	}
	s.found.settled(handle)
	if making {
		_, err = s.destroy(ctx, handle)
	}
	return err
}

// Share keeps volumes from being sealed or destroyed until release, and tells what they are. One that is not there is NotFound, a
// half-made one FailedPrecondition with [sdk.ReasonCreating]. What a container writes is not known here: after Share, a volume that is open counts as
// one that may hold anything.
func (s *Store) Share(ctx context.Context, ids ...sdk.VolumeID) (volumes map[sdk.VolumeID]Volume, release func(), err error) {
	var unlocks []func()
	release = func() {
		for _, unlock := range unlocks {
			unlock()
		}
	}
	volumes = make(map[sdk.VolumeID]Volume)
	// In one order, or two calls could wait for each other while a third waits to seal.
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		unlock, v, err := s.share(ctx, string(id))
		if err != nil {
			release()
			return nil, nil, err
		}
		unlocks = append(unlocks, unlock)
		if v.State != sdk.VolumeSealed {
			s.memo.drop(v.ID)
		}
		volumes[id] = v
	}
	return volumes, release, nil
}

// share keeps one volume from being sealed or destroyed.
func (s *Store) share(ctx context.Context, handle string) (unlock func(), v Volume, err error) {
	unlock, err = s.locks.shared(ctx, handle)
	if err != nil {
		return nil, Volume{}, err
	}
	v, err = s.volume(ctx, handle)
	if err == nil && v.State == sdk.VolumeCreating {
		err = halfMade(handle)
	}
	if err != nil {
		unlock()
		return nil, Volume{}, err
	}
	return unlock, v, nil
}

// volume looks a volume up that must be there and be made by this plugin.
func (s *Store) volume(ctx context.Context, handle string) (Volume, error) {
	v, ok, err := s.get(ctx, handle)
	if err == nil && (!ok || v.token == "" && v.own == "") {
		err = sdk.NewNotFound(sdk.KindVolume, handle)
	}
	return v, err
}

// ListVolumes is that of [sdk.Worker]. Nobody counts the bytes.
func (s *Store) ListVolumes(ctx context.Context, filter sdk.Filter, emit func(sdk.VolumeInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	each := func(v Volume) error {
		if !v.ours() || !filter.Match(v.ID, v.Labels) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return emit(sdk.VolumeInfo{ID: sdk.VolumeID(v.ID), Token: sdk.Token(v.token), Labels: v.Labels, State: v.State, Parent: sdk.VolumeID(v.parent), Bytes: -1})
	}
	if filter.ID == "" {
		return s.list(ctx, filter.Labels, each)
	}
	if sdk.CheckID(sdk.KindVolume, filter.ID) != nil {
		return nil // no volume is called that
	}
	v, ok, err := s.get(ctx, filter.ID)
	if err != nil || !ok {
		return err
	}
	return each(v)
}

// Sealed tells whether a volume is sealed. A half-made one is FailedPrecondition with [sdk.ReasonCreating].
func (s *Store) Sealed(ctx context.Context, id sdk.VolumeID) (bool, error) {
	v, err := s.volume(ctx, string(id))
	if err == nil && v.State == sdk.VolumeCreating {
		err = halfMade(v.ID)
	}
	return v.State == sdk.VolumeSealed, err
}
