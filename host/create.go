package host

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// create makes a container on a worker. When it fails, nothing is left but rows that say what to destroy when the worker is
// back.
func (h *Host) create(ctx context.Context, owner, workerName string, req ContainerRequest, p plan) (_ *Container, err error) {
	w, err := h.worker(workerName)
	if err != nil {
		return nil, err
	}
	c := &Container{h: h, id: sdk.ContainerID(newID("c")), owner: owner, worker: w}
	c.record = containerRecord{Team: req.Team, Kind: req.Kind, Outputs: make(map[string]string)}
	c.record.Spec = sdk.ContainerSpec{ID: c.id, Token: sdk.NewToken(), Labels: h.labels(owner), Dir: p.dir, Limits: req.Limits,
		Privileged: req.Privileged, Hermetic: req.Hermetic, Image: sdk.Image{Ref: req.ImageRef}}
	if err := h.claim(ctx, c); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.discard(ctx)
		}
	}()
	h.fault("claimed")
	if err := c.makeVolumes(ctx, req, p); err != nil {
		return nil, err
	}
	if len(p.mounts) > 0 || req.Image != nil { // now with what it mounts
		if err := c.put(ctx, containerCreating); err != nil {
			return nil, err
		}
	}
	h.fault("container-intent")
	err = w.call(ctx, "create container", func(ctx context.Context, conn sdk.Worker) error {
		return conn.CreateContainer(ctx, c.record.Spec, func(pr sdk.Progress) {
			req.tell(Event{Kind: EventCreating, Worker: w.name, Message: strings.TrimSpace(pr.Phase + " " + pr.Message)})
		})
	})
	h.fault("container-made")
	if err != nil {
		return nil, err
	}
	if err := c.readImage(ctx); err != nil {
		return nil, err
	}
	if err := c.put(ctx, containerReady); err != nil {
		return nil, err
	}
	c.state = containerReady
	h.fault("container-ready")
	return c, nil
}

// claim makes the owner's row. It survives a loss of power: no other container is ever made for this owner.
func (h *Host) claim(ctx context.Context, c *Container) error {
	row, err := c.row(containerCreating)
	if err != nil {
		return err
	}
	return h.store.Update(ctx, store.PowerSafe, func(tx *store.Tx) error { return tx.InsertContainer(row) })
}

func (c *Container) row(state string) (store.Container, error) {
	spec, err := json.Marshal(c.record)
	now := time.Now()
	return store.Container{ID: string(c.id), Worker: c.worker.name, Owner: c.owner, Team: c.record.Team,
		Token: string(c.record.Spec.Token), State: state, Spec: spec, CreatedAt: now, UpdatedAt: now}, err
}

func (c *Container) put(ctx context.Context, state string) error {
	row, err := c.row(state)
	if err != nil {
		return err
	}
	return c.h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		old, err := tx.Container(row.ID)
		if err != nil {
			return err
		}
		if old.State == containerLost {
			return fmt.Errorf("worker %s has lost what it had: %w", row.Worker, sdk.Unavailable)
		}
		row.CreatedAt = old.CreatedAt
		return tx.PutContainer(row)
	})
}

// makeVolumes brings the inputs to the worker, side by side, and makes the container's own volumes.
func (c *Container) makeVolumes(ctx context.Context, req ContainerRequest, p plan) error {
	g, gctx := errgroup.WithContext(ctx)
	mounts := make([]sdk.Mount, len(p.mounts))
	var mu sync.Mutex
	progress := func(s StreamProgress) { req.tell(Event{Kind: EventStreaming, Worker: c.worker.name, Stream: &s}) }
	if req.Image != nil {
		g.Go(func() error {
			r, err := c.h.replicate(gctx, req.Image, c.worker, progress)
			mu.Lock()
			defer mu.Unlock()
			c.record.Spec.Image.Volume = r.volume
			return err
		})
	}
	for i, m := range p.mounts {
		g.Go(func() error {
			row := store.Volume{Container: string(c.id), Path: m.path, Role: roleInput}
			spec := sdk.VolumeSpec{Labels: c.h.labels(c.owner), Privileged: req.Privileged}
			if m.output != "" {
				row.Role = roleOutput
			}
			if m.input != nil {
				r, err := c.h.replicate(gctx, m.input, c.worker, progress)
				if err != nil {
					return err
				}
				row.Parent, spec.Clone = string(r.volume), r.volume
			}
			made, err := c.h.createVolume(gctx, c.worker, row, spec)
			if m.input != nil && sdk.IsNotFound(err, sdk.KindVolume) && c.h.dropReplica(gctx, m.input, c.worker, row.Parent) {
				r, rerr := c.h.replicate(gctx, m.input, c.worker, progress)
				if rerr != nil {
					return rerr
				}
				row.Parent, spec.Clone = string(r.volume), r.volume
				made, err = c.h.createVolume(gctx, c.worker, row, spec)
			}
			row = made
			if err != nil {
				return err
			}
			mounts[i] = sdk.Mount{Volume: sdk.VolumeID(row.ID), Path: m.path}
			if m.output != "" {
				mu.Lock()
				defer mu.Unlock()
				c.record.Outputs[m.output] = row.ID
			}
			return nil
		})
	}
	err := g.Wait()
	c.record.Spec.Mounts = mounts
	return err
}
