package garden

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// SealVolume has every container that can write the volume start nothing more, for good. Where Garden is away, volumes that no container can write
// are sealed all the same.
func (w *worker) SealVolume(ctx context.Context, id sdk.VolumeID) error {
	return w.store.SealVolume(ctx, id, func(ctx context.Context) error { return w.quiesce(ctx, id) })
}

// quiesce asks both servers who can write the volume: Garden lists what runs, and the store knows of what Garden may have forgotten.
func (w *worker) quiesce(ctx context.Context, id sdk.VolumeID) error {
	var told map[sdk.ContainerID]claim.Volume
	var all map[sdk.ContainerID]facts
	var storeErr, gardenErr error
	var both errgroup.Group
	both.Go(func() error { told, storeErr = w.writersTold(ctx, id); return nil })
	both.Go(func() error { all, gardenErr = w.ours(ctx, sdk.Filter{}); return nil })
	_ = both.Wait()
	switch {
	case storeErr != nil:
		return storeErr
	case errors.Is(gardenErr, sdk.Unavailable) && len(told) == 0:
		return nil
	case gardenErr != nil:
		return gardenErr
	}
	var writers []sdk.ContainerID
	for container, f := range all {
		if slices.Contains(f.writes, string(id)) {
			writers = append(writers, container)
		}
	}
	inUse := func(container sdk.ContainerID) error {
		return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
			"volume %q: a process lives in container %q, which can write it; end it before sealing", id, container)
	}
	for container, v := range told {
		if _, listed := all[container]; listed || w.over(container) {
			continue
		}
		if runs, err := w.runsUnlisted(ctx, container, v); err != nil {
			return err
		} else if runs {
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
				"volume %q: container %q can write it and runs on, although %s does not list it any more; destroy it before sealing", id, container, w.garden)
		}
	}
	// With one of many busy nothing is sealed, and then the others shall still take processes. What starts from here on is too late to be spared.
	if len(writers) > 1 {
		for _, container := range writers {
			all, err := w.Driver.ListProcesses(ctx, container)
			if err == nil && slices.ContainsFunc(all, func(p sdk.ProcessInfo) bool { return p.State == sdk.ProcessRunning }) {
				return inUse(container)
			}
		}
	}
	for _, container := range writers {
		err := w.Quiesce(ctx, container)
		switch {
		case errors.Is(err, sdk.ReasonInUse):
			return inUse(container)
		case sdk.IsNotFound(err, sdk.KindContainer), errors.Is(err, sdk.ReasonRecordLost), errors.Is(err, sdk.ReasonCreating): // nothing of it can run
		case err != nil:
			return err
		}
	}
	return nil
}

// writersTold asks the store alone which containers can write a volume: each has volumes of its own there, from before it is made until after it is
// gone, which say what it writes. It gives the volume with the container's shim.
func (w *worker) writersTold(ctx context.Context, id sdk.VolumeID) (map[sdk.ContainerID]claim.Volume, error) {
	volumes, err := w.store.Owned(ctx, nil)
	if err != nil {
		return nil, err
	}
	writers := make(map[sdk.ContainerID]claim.Volume)
	for _, v := range volumes {
		container := sdk.ContainerID(v.Properties[claim.OwnProperty])
		if v.ID != slipwayVolume(container) || v.Properties[propProbe] != "" {
			continue // a probe mounts no volume of a host
		}
		writes, told := v.Properties[propWrites]
		if !told || slices.Contains(strings.Split(writes, ","), string(id)) { // one that an older plugin made does not tell
			writers[container] = v
		}
	}
	return writers, nil
}

// runsUnlisted tells whether a process may still write in a container that Garden does not list. Mostly somebody has destroyed it there. But guardian does not list
// what it had made before it was killed, which runs on.
func (w *worker) runsUnlisted(ctx context.Context, id sdk.ContainerID, v claim.Volume) (bool, error) {
	if v.Properties[propMade] != yes {
		return false, nil // no process is started before that
	}
	w.forget(id) // so that nothing more is started there, as in a container that is gone
	processes, err := w.ListProcesses(ctx, id)
	switch {
	case sdk.IsNotFound(err, sdk.KindContainer): // destroyed meanwhile
		return false, nil
	case err != nil && !errors.Is(err, sdk.ReasonRecordLost):
		return false, err
	case err == nil && !slices.ContainsFunc(processes, func(p sdk.ProcessInfo) bool { return p.State != sdk.ProcessExited }):
		return false, nil
	}
	ended, err := w.keeperEnded(ctx, v)
	return !ended, err
}
