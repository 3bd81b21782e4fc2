package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Here it is noted what is to be destroyed; the reconciler of its worker does so, and is waited for.

// destroyPatience is how long destroying waits for a worker that is away, of which nothing is wanted any more. What is not destroyed then is
// once the worker is back, and nobody needs to wait for it.
const destroyPatience = 2 * time.Second

// Destroy kills what runs in the container and removes it with all its volumes, outputs that were not sealed too. Idempotent.
// The record of what ran in it stays. One that is still being made is given up first, as by [Host.RemoveContainer].
func (c *Container) Destroy(ctx context.Context) error {
	return c.destroy(ctx, doom{volumes: true})
}

func (c *Container) destroy(ctx context.Context, d doom) error {
	if c.state == lifecycle.ContainerCreating { // unless it is long gone, and its owner has another
		creation := c.h.owners.underWay(c.owner)
		row, err := c.h.containerByOwner(ctx, c.owner)
		if err == nil && row.ID == string(c.id) {
			err = c.h.stopCreationOf(ctx, row, creation)
		}
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	return c.h.destroyContainer(ctx, string(c.id), d)
}

// RemoveContainer destroys an owner's container, as [Container.Destroy] does, and says that its owner is done with what ran in it: who asks under that owner after it gets a
// new container, in which everything may run again. Until then the record of what ran stays. Where it is still being made, or waits for a place, that is given up and undone first:
// who asked for it is told by an *AbortedError, and the owner may ask again. What a run has begun is not begun again for that: its step was aborted. An owner who has none, and
// waits for none, is sdk.NotFound.
func (h *Host) RemoveContainer(ctx context.Context, owner string) error {
	stopped, err := h.stopCreation(ctx, owner, nil)
	if err != nil {
		return err
	}
	row, err := h.containerByOwner(ctx, owner)
	if stopped && errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return h.remove(ctx, owner, row.ID, err)
}

// RemoveContainerByID is RemoveContainer for one container of an owner: where the owner has another one by now, that is left alone. So it can be repeated at any time by who does not know
// whether it has worked, though others have asked for the owner's container meanwhile.
func (h *Host) RemoveContainerByID(ctx context.Context, owner, id string) error {
	creation := h.owners.underWay(owner)
	row, err := h.containerByOwner(ctx, owner)
	if err == nil && row.ID != id {
		return nil
	}
	if err == nil {
		if err := h.stopCreationOf(ctx, row, creation); err != nil {
			return err
		}
	}
	return h.remove(ctx, owner, id, err)
}

// remove destroys a container that its owner is done with. The error is that of looking for it.
func (h *Host) remove(ctx context.Context, owner, id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindContainer, ID: owner, Message: fmt.Sprintf("%s has no container", owner)}
	}
	if err == nil {
		err = h.destroyContainer(ctx, id, doom{volumes: true, removed: !strings.HasPrefix(owner, runPrefix)})
	}
	if err != nil {
		return fmt.Errorf("container of %s: %w", owner, err)
	}
	return nil
}

// stopCreationOf is stopCreation of one container of its owner, whose creation was under way before its row was read: by now another one of the owner's may be, which is left alone.
func (h *Host) stopCreationOf(ctx context.Context, row store.Container, creation *flight[*Container]) error {
	if row.State != lifecycle.ContainerCreating || creation == nil { // nil: an earlier host began it
		return nil
	}
	_, err := h.stopCreation(ctx, row.Owner, creation)
	return err
}

// stopCreation gives up the creation of an owner's container, if it is under way, and is only (nil: whichever it is), and waits until it is undone. The error says that it is not yet.
func (h *Host) stopCreation(ctx context.Context, owner string, only *flight[*Container]) (stopped bool, err error) {
	stopped, ended, err := h.owners.stop(ctx, owner, only, &AbortedError{Owner: owner, Reason: "its container was removed while it was asked for"})
	if left := leftOfHalfMade(ended); left != nil {
		err = left
	}
	if err != nil {
		return stopped, fmt.Errorf("container of %s, which was being made: %w", owner, err)
	}
	return stopped, nil
}

// halfMadeError is why a container could not be made, where what was made of it could not be undone either. That goes when its worker is back.
type halfMadeError struct{ err, left error }

func (e *halfMadeError) Error() string { return e.err.Error() }
func (e *halfMadeError) Unwrap() error { return e.err }

// leftOfHalfMade is why what was made of a container could not be undone; nil: it was, or is to be once its worker is back.
func leftOfHalfMade(err error) error {
	if half, ok := errors.AsType[*halfMadeError](err); ok {
		return half.left
	}
	return nil
}

// halfMade tells whether the container is one whose creation has failed in this host, when the disk had no room to note even that it is to be destroyed: an earlier host's is
// settled once its worker is up, and nobody else makes one for its owner while this is asked.
func (c *Container) halfMade() bool {
	return c.state == lifecycle.ContainerCreating && !c.h.busy.has(string(c.id)) && c.worker.connection() != nil
}

// destroyOnly destroys the container, whose work has ended and of which something is still wanted: a worker that is away, or cannot destroy it for a while, is waited for.
func (c *Container) destroyOnly(ctx context.Context) error {
	doomed, err := c.h.noteDoomed(ctx, string(c.id), doom{ended: true})
	if err != nil {
		return err
	}
	return c.h.awaitGoneThough(ctx, doomed.worker, doomed.things...)
}

// doom says what else is noted when a container is to be destroyed.
type doom struct {
	volumes bool // all that it has goes, too
	disown  bool // its owner may ask again at once, and no record is kept
	removed bool // its owner gets another one when it asks again
	ended   bool // unless something in it has not ended by itself, which is the error then
}

// destroyContainer has a container destroyed, and waits for that. Of one that is over already, only the volumes are.
func (h *Host) destroyContainer(ctx context.Context, id string, d doom) error {
	doomed, err := h.noteDoomed(ctx, id, d)
	if err != nil {
		return err
	}
	return h.awaitGone(ctx, doomed.worker, destroyPatience, doomed.things...)
}

// noteDoomed notes on disk that a container is to be destroyed.
func (h *Host) noteDoomed(ctx context.Context, id string, d doom) (doomed doomed, err error) {
	err = h.store.Release(context.WithoutCancel(ctx), store.KillSafe, func(tx *store.Tx) (err error) { // whoever waits for that or not
		doomed, err = h.doomContainer(tx, id, d)
		return err
	})
	return doomed, err
}

// doomed is what is to be destroyed on a worker.
type doomed struct {
	worker string
	things []reap.Thing
}

// doomContainer notes that a container, and what else d says, is to be destroyed.
func (h *Host) doomContainer(tx *store.Tx, id string, d doom) (doomed, error) {
	if d.ended {
		if err := workEnded(tx, id); err != nil {
			return doomed{}, err
		}
	}
	tx.Committed(func() { h.expiries.forget(containerThing(id)) })
	event := lifecycle.Doomed
	if d.removed {
		event = lifecycle.Removed
	}
	m, err := h.moveContainer(tx, id, event, func(row *store.Container) error {
		if d.disown {
			row.Owner = ""
		}
		if d.removed {
			return noteRemoved(row)
		}
		return nil
	})
	if err == nil && d.disown && m.row.State == lifecycle.ContainerLost { // its worker has lost it meanwhile
		_, err = h.moveContainer(tx, id, lifecycle.Discarded, nil)
	}
	out := doomed{worker: m.row.Worker}
	if m.yes && m.row.State == lifecycle.ContainerDestroying {
		out.things = append(out.things, containerThing(id))
	}
	if err != nil || !d.volumes {
		return out, err
	}
	volumes, err := h.doomVolumes(tx, id)
	out.things = append(out.things, volumes...)
	return out, err
}

// doomVolumes notes that all that a container has is to be destroyed.
func (h *Host) doomVolumes(tx *store.Tx, container string) (things []reap.Thing, err error) {
	rows, err := tx.Volumes(store.VolumeFilter{Container: container})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if _, err := h.moveVolume(tx, row.ID, lifecycle.Doomed, nil); err != nil {
			return nil, err
		}
		things = append(things, volumeThing(row.ID))
	}
	return things, nil
}

// awaitAllGone waits until things on several workers are destroyed.
func (h *Host) awaitAllGone(ctx context.Context, all []doomed) error {
	by := make(map[string][]reap.Thing)
	for _, d := range all {
		by[d.worker] = append(by[d.worker], d.things...)
	}
	var errs []error
	for _, worker := range slices.Sorted(maps.Keys(by)) {
		errs = append(errs, h.awaitGone(ctx, worker, destroyPatience, by[worker]...))
	}
	return errors.Join(errs...)
}

// things are volumes as what is to be destroyed.
func things(rows []store.Volume) []reap.Thing {
	out := make([]reap.Thing, len(rows))
	for i, row := range rows {
		out[i] = volumeThing(row.ID)
	}
	return out
}

// discard undoes a container in which no process was started. Its owner may ask again at once. The error says why something of it stays for now.
func (c *Container) discard(ctx context.Context) error {
	ctx, cancel := c.h.cleanup(ctx)
	defer cancel()
	doomed, err := c.h.noteDoomed(ctx, string(c.id), doom{volumes: true, disown: true})
	if t := containerThing(string(c.id)); err == nil && !slices.Contains(doomed.things, t) { // somebody has destroyed it, perhaps before it was made
		c.h.owe(c.worker.name, c.h.clock.wall(), t)
		doomed.things = append(doomed.things, t)
	}
	if err == nil {
		err = c.h.awaitGone(ctx, c.worker.name, destroyPatience, doomed.things...)
	}
	if err != nil {
		c.h.log.Warn("a half-made container stays for now; it is destroyed when its worker is there and the disk has room to note that", "container", c.id, "worker", c.worker.name, "error", err)
	}
	return err
}

// destroyVolume has a volume destroyed, and waits for that. It is, too, if it has no row any more: whoever made the volume cannot know whether it was
// made before its worker lost all, or after.
func (h *Host) destroyVolume(ctx context.Context, row store.Volume) error {
	known := false
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		m, err := h.moveVolume(tx, row.ID, lifecycle.Doomed, nil)
		known = m.yes
		return err
	})
	if err != nil {
		return err
	}
	t := volumeThing(row.ID)
	if !known {
		return h.destroyUnknown(ctx, row.Worker, t)
	}
	return h.awaitGone(ctx, row.Worker, destroyPatience, t)
}

// destroyUnknown has a thing destroyed that has no row, or that of one that is over, and waits for that.
func (h *Host) destroyUnknown(ctx context.Context, worker string, t reap.Thing) error {
	h.owe(worker, h.clock.wall(), t)
	return h.awaitGone(ctx, worker, destroyPatience, t)
}

// discardVolume undoes what came of a volume. What cannot be undone now keeps its row, and is when its worker is back, or the disk has room to note it.
func (h *Host) discardVolume(ctx context.Context, row store.Volume) {
	ctx, cancel := h.cleanup(ctx)
	defer cancel()
	if err := h.destroyVolume(ctx, row); err != nil {
		h.busy.remove(row.ID) // where not even that is noted, the reaper finds that nobody works on it
		h.log.Warn("a volume stays for now; it is destroyed when its worker is there and the disk has room to note that", "volume", row.ID, "worker", row.Worker, "error", err)
	}
}
