//go:build linux

package machine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shelf"
	"github.com/slipway-run/slipway/sdk/shim"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// record is what is kept of a container beside its files. A spec holds no secret (rule 13).
type record struct {
	Spec    sdk.ContainerSpec
	State   sdk.ContainerState // ContainerGone: DestroyContainer has begun
	Attempt string             // a random word for this one to make it
	Boot    string             // id of the machine's start in which it was made
	Mounts  []Mount            `json:",omitempty"`
}

// writes tells whether the container can write a volume.
func (r record) writes(id sdk.VolumeID) bool {
	return slices.ContainsFunc(r.Spec.Mounts, func(m sdk.Mount) bool { return m.Volume == id && !m.ReadOnly })
}

// container makes of a record what the functions get.
func (w *Worker) container(rec record) Container {
	id := string(rec.Spec.ID)
	root := w.containers.Path(id, "root")
	c := Container{
		ID:      rec.Spec.ID,
		Root:    root,
		Dir:     w.containers.Path(id, "own"),
		Mounts:  slices.Clone(rec.Mounts),
		Command: []string{shimPath, "serve", scratchPath},
		Own: []Mount{
			{Source: root + shimPath, Path: shimPath, Target: root + shimPath, ReadOnly: true},
			{Source: root + scratchPath, Path: scratchPath, Target: root + scratchPath},
		},
		Privileged: rec.Spec.Privileged,
		Hermetic:   rec.Spec.Hermetic,
		Limits:     rec.Spec.Limits,
	}
	if c.Limits.MemoryBytes != 0 {
		c.Limits.MemoryBytes += shim.OverheadMemoryBytes
	}
	if c.Limits.PIDs != 0 {
		c.Limits.PIDs += shim.OverheadPIDs
	}
	return c
}

// runs tells whether a container that was ready still is, and if not, why.
func (w *Worker) runs(ctx context.Context, rec record) (bool, string, error) {
	if rec.Boot != w.boot {
		return false, "the machine was started anew", nil
	}
	if w.f.Runs == nil {
		return true, "", nil
	}
	ok, why, err := w.f.Runs(ctx, w.container(rec))
	return ok, cmp.Or(why, "its first process has ended"), err
}

// ListContainers emits what there is.
func (w *Worker) ListContainers(ctx context.Context, filter sdk.Filter, emit func(sdk.ContainerInfo) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var records []record
	err := w.containers.Each(func(id string, rec record) error {
		if !isProbe(rec.Spec.ID) && filter.Match(id, rec.Spec.Labels) {
			records = append(records, rec)
		}
		return ctx.Err()
	})
	if err != nil {
		return volumedir.Fault(err, sdk.KindWorker, w.name)
	}
	for _, rec := range records {
		info, err := w.info(ctx, rec)
		if errors.Is(err, fs.ErrNotExist) { // destroyed meanwhile
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return volumedir.Fault(err, sdk.KindContainer, string(rec.Spec.ID))
		}
		if err := emit(info); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// info tells of a container, whether or not it still runs. It is fs.ErrNotExist where it was destroyed meanwhile.
func (w *Worker) info(ctx context.Context, rec record) (sdk.ContainerInfo, error) {
	info := sdk.ContainerInfo{ID: rec.Spec.ID, Token: rec.Spec.Token, Labels: rec.Spec.Labels, State: rec.State}
	if rec.State == sdk.ContainerReady {
		ok, why, err := w.runs(ctx, rec)
		if err != nil {
			return info, err
		}
		if !ok {
			now, err := w.containers.Read(string(rec.Spec.ID)) // or was it being destroyed?
			if err != nil {
				return info, err
			}
			if info.State = sdk.ContainerGone; now.State == sdk.ContainerReady {
				info.Reason = why
			}
		}
	}
	if info.State == sdk.ContainerGone && info.Reason == "" {
		info.Reason = "it is being destroyed"
	}
	return info, nil
}

// DestroyContainer kills at once. It is done when nothing of the container can write any more.
func (w *Worker) DestroyContainer(ctx context.Context, id sdk.ContainerID) error {
	if err := sdk.CheckID(sdk.KindContainer, string(id)); err != nil {
		return err
	}
	unlock, err := w.containers.Lock(ctx, string(id), shelf.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return volumedir.Fault(err, sdk.KindContainer, string(id))
	}
	defer unlock()
	rec, err := w.containers.Read(string(id))
	if err == nil {
		defer w.mark(w.ending, rec.Attempt)()
		rec.State = sdk.ContainerGone
		err = w.containers.Write(string(id), rec)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return volumedir.Fault(err, sdk.KindContainer, string(id))
	}
	return volumedir.Fault(w.remove(ctx, id), sdk.KindContainer, string(id))
}

// remove takes away all that there is of a container. Its lock is held.
func (w *Worker) remove(ctx context.Context, id sdk.ContainerID) error {
	rec, err := w.containers.Read(string(id))
	if err == nil {
		err = w.f.Destroy(ctx, w.container(rec))
	} else if errors.Is(err, fs.ErrNotExist) { // nothing was begun
		err = nil
	}
	if err != nil {
		return err
	}
	w.driver.Forget(id) // before there may be another one of that id
	return w.containers.Discard(string(id))
}

// quiesce has the containers that can write a volume start nothing more.
func (w *Worker) quiesce(ctx context.Context, id sdk.VolumeID) error {
	return w.containers.Each(func(container string, rec record) error {
		if rec.State != sdk.ContainerReady || !rec.writes(id) {
			return nil
		}
		err := w.driver.Quiesce(ctx, sdk.ContainerID(container))
		switch {
		case errors.Is(err, sdk.ReasonInUse):
			return sdk.NewFailedPrecondition(sdk.ReasonInUse, sdk.KindVolume, string(id),
				"volume %q: a process lives in container %q, which can write it; end it before sealing", id, container)
		case sdk.IsNotFound(err, sdk.KindContainer), errors.Is(err, sdk.ReasonRecordLost): // nothing of it can run
			return nil
		}
		return err
	})
}

func dead(id sdk.ContainerID) error {
	return sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, string(id), "container %q is gone and takes no process; destroy it", id)
}

func sealedMount(m sdk.Mount) error {
	return sdk.NewFailedPrecondition(sdk.ReasonSealed, sdk.KindVolume, string(m.Volume),
		"volume %q at %q is sealed and can only be mounted read-only", m.Volume, m.Path)
}
