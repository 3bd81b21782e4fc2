package host

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// create makes a container on a worker. When it fails, nothing is left but rows that say what to destroy when the worker is
// back.
func (h *Host) create(ctx context.Context, owner string, where *placed, req ContainerRequest, p plan) (_ *Container, err error) {
	w, err := h.worker(where.Worker)
	if err != nil {
		return nil, err
	}
	c := &Container{h: h, id: sdk.ContainerID(newID("c")), owner: owner, worker: w}
	c.record = containerRecord{Team: req.Team, Kind: req.Kind, Outputs: make(map[string]string), Caches: make(map[string]string),
		Placed: where, Claims: claims{req.Resources}, TTL: req.TTL}
	for _, cache := range req.Caches {
		if cache.TTL > 0 {
			if c.record.CacheTTLs == nil {
				c.record.CacheTTLs = make(map[string]time.Duration)
			}
			c.record.CacheTTLs[cache.Key] = cache.TTL
		}
	}
	c.record.Spec = sdk.ContainerSpec{ID: c.id, Token: sdk.NewToken(), Labels: h.labels(owner), Dir: p.dir, Limits: req.Limits,
		Privileged: req.Privileged, Hermetic: req.Hermetic, Image: sdk.Image{Ref: req.ImageRef}}
	h.busy.add(string(c.id))
	defer h.busy.remove(string(c.id))
	if err := h.claim(ctx, c); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		if left := c.discard(ctx); left != nil {
			err = &halfMadeError{err, left}
		}
	}()
	h.fault("claimed")
	if err := c.makeVolumes(ctx, req, p); err != nil {
		return nil, err
	}
	if len(p.mounts) > 0 || req.Image != nil { // now with what it mounts
		if err := c.move(ctx, lifecycle.Described, c.mountsStay); err != nil {
			return nil, err
		}
	}
	h.fault("container-intent")
	err = w.work(ctx, "create container", func(ctx context.Context, conn sdk.Worker, sign func()) error {
		told := pacer{tell: req.tell}
		defer told.end()
		return conn.CreateContainer(ctx, c.record.Spec, func(pr sdk.Progress) {
			sign()
			told.put(Event{Kind: EventCreating, Worker: w.name, Message: fewWords(strings.TrimSpace(pr.Phase + " " + pr.Message))})
		})
	})
	h.fault("container-made")
	if err != nil {
		c.doubtMounted(ctx, err)
		return nil, err
	}
	if err := c.move(ctx, lifecycle.Made); err != nil {
		return nil, err
	}
	c.state = lifecycle.ContainerReady
	if c.record.TTL > 0 {
		h.expiries.note(containerThing(string(c.id)), h.clock.wall().Add(c.record.TTL))
	}
	h.index.GiveBackUnused(owner)
	h.fault("container-ready")
	return c, nil
}

// claim makes the owner's row. It survives a loss of power: no other container is ever made for this owner.
func (h *Host) claim(ctx context.Context, c *Container) error {
	spec, err := json.Marshal(c.record)
	if err != nil {
		return err
	}
	return h.store.Update(ctx, store.PowerSafe, func(tx *store.Tx) error {
		if err := h.makeWay(tx, c.owner); err != nil {
			return err
		}
		_, err := h.moveContainer(tx, string(c.id), lifecycle.Claimed, func(row *store.Container) error {
			*row = store.Container{ID: string(c.id), Worker: c.worker.name, Owner: c.owner, Team: c.record.Team,
				Token: string(c.record.Spec.Token), Spec: spec, CreatedAt: row.UpdatedAt, UpdatedAt: row.UpdatedAt}
			return nil
		})
		return err
	})
}

// mountsStay makes sure that what the container mounts, and is not its own, is there until it is noted that it does, from when on nothing of that is destroyed. It may have
// been doomed since it was found: then it is NotFound, and the container is made anew.
func (c *Container) mountsStay(tx *store.Tx) error {
	for _, id := range c.record.mounted() {
		v, err := tx.Volume(id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if v.Container != string(c.id) && v.State != lifecycle.VolumeSealed {
			return sdk.NewNotFound(sdk.KindVolume, id)
		}
	}
	return nil
}

// move takes the container's row through an event, if the checks let it, and writes its record as it is here.
func (c *Container) move(ctx context.Context, e lifecycle.Event, checks ...func(*store.Tx) error) error {
	spec, err := json.Marshal(c.record)
	if err != nil {
		return err
	}
	return c.h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		for _, check := range checks {
			if err := check(tx); err != nil {
				return err
			}
		}
		_, err := c.h.moveContainer(tx, string(c.id), e, func(row *store.Container) error {
			row.Spec = spec
			return nil
		})
		return lostMeanwhile(c.worker.name, err)
	})
}

// makeVolumes brings the inputs to the worker, side by side, and makes the container's own volumes.
func (c *Container) makeVolumes(ctx context.Context, req ContainerRequest, p plan) error {
	g, gctx := errgroup.WithContext(ctx)
	mounts := make([]sdk.Mount, len(p.mounts))
	var mu sync.Mutex
	progress := func(s StreamProgress) { req.tell(Event{Kind: EventStreaming, Worker: c.worker.name, Stream: &s}) }
	var who ownership
	known := make(chan struct{}) // closed once who is known
	g.Go(func() error {
		image, err := c.bringImage(gctx, req.Image, progress)
		if err != nil {
			return err
		}
		c.image = &image
		if who, err = c.volumeOwner(gctx, req.User); err != nil {
			return err
		}
		close(known)
		return nil
	})
	for i, m := range p.mounts {
		g.Go(func() error {
			row := store.Volume{Container: string(c.id), Path: m.path, Role: roleInput}
			spec := sdk.VolumeSpec{Labels: c.h.labels(c.owner), Privileged: req.Privileged}
			switch {
			case m.output != "":
				row.Role = roleOutput
			case m.cache != "":
				row.Role = roleCache
			}
			if m.readOnly { // whoever makes the container sees whether it is there
				r, err := c.h.replicate(gctx, m.input, c.worker, progress)
				mounts[i] = sdk.Mount{Volume: r.volume, Path: m.path, ReadOnly: true}
				return err
			}
			row, err := c.makeVolume(gctx, m, row, spec, progress, func() (ownership, error) {
				select {
				case <-known:
					return who, nil
				case <-gctx.Done():
					return ownership{}, gctx.Err()
				}
			})
			if err != nil {
				return err
			}
			mounts[i] = sdk.Mount{Volume: sdk.VolumeID(row.ID), Path: m.path}
			mu.Lock()
			defer mu.Unlock()
			if m.output != "" {
				c.record.Outputs[m.output] = row.ID
			}
			if m.cache != "" {
				c.record.Caches[m.cache] = row.ID
			}
			return nil
		})
	}
	err := g.Wait()
	c.record.Spec.Mounts = mounts
	return err
}

// bringImage brings an image to the container's worker, if there is one, and reads what it says of processes.
func (c *Container) bringImage(ctx context.Context, a *Artifact, progress func(StreamProgress)) (image imageDefaults, err error) {
	if a == nil {
		return c.readImage(ctx)
	}
	err = c.h.withReplica(ctx, a, c.worker, progress, func(r replica) (err error) {
		c.record.Spec.Image.Volume = r.volume
		image, err = c.readImage(ctx)
		return err
	})
	return image, err
}

// makeVolume makes one of the container's own volumes, as a clone of its input where it has one. A cache whose content cannot be had begins
// empty. Owner waits until it is known whom the volume belongs to.
func (c *Container) makeVolume(
	ctx context.Context, m plannedMount, row store.Volume, spec sdk.VolumeSpec, progress func(StreamProgress), owner func() (ownership, error),
) (made store.Volume, err error) {
	create := func(from replica) error {
		who, err := owner()
		if err != nil {
			return err
		}
		spec.UID, spec.GID = who.uid, who.gid
		row.Parent, spec.Clone = string(from.volume), from.volume
		made, err = c.h.createVolume(ctx, c.worker, c.owner, row, spec)
		return err
	}
	if m.input == nil {
		err = create(replica{})
		return made, err
	}
	defer c.h.using(m.input.ID)()
	var failed error // of the making, where the content was there
	err = c.h.withReplica(ctx, m.input, c.worker, progress, func(r replica) error {
		failed = create(r)
		return failed
	})
	if err == nil || m.cache == "" || ctx.Err() != nil || failed != nil && !sdk.IsNotFound(failed, sdk.KindVolume) {
		return made, err
	}
	c.h.log.Warn("a cache cannot be had, and begins empty", "owner", c.owner, "key", m.cache, "worker", c.worker.name, "error", err)
	err = create(replica{})
	return made, err
}

// doubtMounted notes which replica it is that a worker does not know, if that is why it has not made the container.
func (c *Container) doubtMounted(ctx context.Context, err error) {
	for _, id := range c.record.mounted() {
		if isMissing(err, id) {
			c.h.doubtReplica(ctx, c.worker, id, err)
		}
	}
}
