package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Cache keeps what a container leaves at a path for the next one that names the same key. The container has a copy of its own, which is
// empty where there is nothing under the key yet, or nothing that can be had now.
type Cache struct {
	Key  string // as TaskCacheKey gives it
	Path string // relative: below the container's Dir
	// TTL is how long what the container leaves there is kept after its last use. Zero: Options.CacheTTL, or the configuration's.
	TTL time.Duration
}

// TaskCacheKey is the key of what a step keeps at a path from run to run. Scope is what the runs have in common, such as the job's name.
func TaskCacheKey(team, scope, step, path string) string {
	return cacheKey(string(TaskCache), team, scope, step, path)
}

func cacheKey(kind string, parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return kind + ":" + strings.Join(parts, "/")
}

// DefaultCacheTTL is how long a cache is kept after its last use where neither the configuration nor Options says anything else.
const DefaultCacheTTL = 30 * 24 * time.Hour

func (h *Host) cacheTTL() time.Duration {
	return cmp.Or(h.opts.CacheTTL, h.cfg().Artifacts.CacheTTL, DefaultCacheTTL)
}

const (
	// cachePrefix begins the names of artifacts that are caches of steps.
	cachePrefix = "cache/"
	// maxCacheChain is how many generations of a cache may be copies of each other. All of them are kept for as long as one is, so that beyond it
	// the content is copied whole.
	maxCacheChain = 8
)

// withCaches finds what there is under the keys of a plan's caches, holds it, and has placement prefer the workers that have it.
func (h *Host) withCaches(ctx context.Context, p plan, held *holds) (plan, error) {
	return p.withCaches(func(key string) (*Artifact, error) { return h.useCache(ctx, key, time.Time{}, held.add) })
}

// asIfWithCaches is withCaches that only looks: nothing is held, and no cache counts as used.
func (h *Host) asIfWithCaches(ctx context.Context, p plan) (plan, error) {
	return p.withCaches(func(key string) (*Artifact, error) {
		rows, err := h.cachesUnder(ctx, key, time.Time{})
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		return &Artifact{ID: rows[0].ID, Name: rows[0].Name}, nil
	})
}

// withCaches is the plan with what find gives for the key of each of its caches; nil: there is nothing.
func (p plan) withCaches(find func(key string) (*Artifact, error)) (plan, error) {
	p.mounts = slices.Clone(p.mounts)
	for i := range p.mounts {
		m := &p.mounts[i]
		if m.cache == "" {
			continue
		}
		a, err := find(m.cache)
		if err != nil {
			return p, err
		}
		if m.input = a; a != nil {
			p.wanting = append(slices.Clip(p.wanting), pool.Content{Key: a.ID})
		}
	}
	return p, nil
}

// withoutCaches is the plan with caches that begin empty, if that may help against an error of placement: workers that would do are too small for their contents beside
// the container.
func (p plan) withoutCaches(err error) (_ plan, yes bool) {
	none, ok := errors.AsType[*pool.NoWorkerError](err)
	if !ok || !slices.ContainsFunc(none.Reasons, func(v pool.Verdict) bool { return v.Reason == pool.TooBig }) {
		return p, false
	}
	p.mounts = slices.Clone(p.mounts)
	for i := range p.mounts {
		m := &p.mounts[i]
		if m.cache == "" || m.input == nil {
			continue
		}
		at := slices.IndexFunc(p.wanting, func(c pool.Content) bool { return c.Key == m.input.ID })
		p.wanting = slices.Delete(slices.Clone(p.wanting), at, at+1)
		m.input, yes = nil, true
	}
	return p, yes
}

// cachesUnder lists the contents under a key that can be had and were valid at a time, the newest first. What the reaper leaves though its time has
// passed, since the clock was set, is had as well.
func (h *Host) cachesUnder(ctx context.Context, key string, validAt time.Time) (out []store.Artifact, err error) {
	var rows []store.Artifact
	err = h.store.View(ctx, func(tx *store.Tx) (err error) {
		rows, err = tx.Artifacts(store.ArtifactFilter{Key: key})
		return err
	})
	if err != nil {
		return nil, err
	}
	var look reap.Snapshot
	look.Now, look.Renewed = h.jumps.look(h.clock)
	for _, row := range slices.Backward(rows) {
		var a reap.Artifact
		a.Since, a.Keep = h.kept(row)
		stale := !row.InvalidAt.IsZero() && (validAt.IsZero() || !validAt.Before(row.InvalidAt))
		if !stale && !look.Expired(a) && h.within(ctx, row) {
			out = append(out, row)
		}
	}
	return out, nil
}

// useCache gives the newest content under a key that can be had and was valid at a time, and notes that it was used. Nil: there is none.
// Hold, if not nil, is called with its id before it can go.
func (h *Host) useCache(ctx context.Context, key string, validAt time.Time, hold func(id string)) (*Artifact, error) {
	now := h.clock.wall()
	rows, err := h.cachesUnder(ctx, key, validAt)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
			if row, err = tx.Artifact(row.ID); err != nil {
				return err
			}
			if hold != nil {
				hold(row.ID)
			}
			if row.Key != key { // something newer has just come: what was there serves as well
				return nil
			}
			row.UsedAt, row.ExpiresAt = now, now.Add(cmp.Or(row.TTL, h.cacheTTL()))
			return h.putArtifact(tx, row)
		})
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		return &Artifact{ID: row.ID, Name: row.Name}, err
	}
	return nil, nil
}

// within tells whether an artifact's content can be had without waiting long for a worker.
func (h *Host) within(ctx context.Context, row store.Artifact) bool {
	sources, err := h.sources(ctx, &Artifact{ID: row.ID, Name: row.Name})
	return err == nil && slices.ContainsFunc(sources, func(s source) bool {
		if s.worker == nil {
			return true
		}
		r := s.worker.report()
		return r.Up || time.Since(r.Since) < h.cfg().Timing.Stalled
	})
}

// SaveCaches ends the container and keeps what is in its caches under their keys, in place of what was there. It is for a container whose
// work has succeeded, and comes before Seal, which destroys what was not kept. It refuses what Seal refuses; whether work that has ended by itself has
// succeeded is the caller's to know. Idempotent, also across restarts.
func (c *Container) SaveCaches(ctx context.Context) error {
	if len(c.record.Caches) == 0 {
		return nil
	}
	if err := c.destroyOnly(ctx); err != nil {
		return err
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c.record.Caches)) {
		if err := c.saveCache(ctx, key, c.record.Caches[key]); err != nil {
			errs = append(errs, fmt.Errorf("cache %s of %s: %w", key, c.owner, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Container) saveCache(ctx context.Context, key, id string) error {
	h := c.h
	row, err := h.volume(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Container == "" {
		return nil // it was kept already, and may have gone since
	}
	if err != nil {
		return err
	}
	if err := h.sealVolume(ctx, row); err != nil {
		return err
	}
	h.fault("cache-sealed")
	now := h.clock.wall()
	ttl := cmp.Or(c.record.CacheTTLs[key], h.cacheTTL())
	a := store.Artifact{ID: newID("a"), Team: c.record.Team, Key: key, Source: c.owner, TTL: ttl, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(ttl)}
	a.Name = cachePrefix + a.ID
	bytes := h.sizeOf(ctx, row)
	var older []store.Artifact
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		if older, err = h.supersede(tx, key, now); err != nil {
			return err
		}
		if err := h.putArtifact(tx, a); err != nil {
			return err
		}
		row, err = h.keepVolume(tx, row, a.ID, bytes)
		return err
	})
	if err != nil {
		return err
	}
	h.fault("cache-registered")
	if err := h.flatten(ctx, &Artifact{ID: a.ID, Name: a.Name}, row); err != nil {
		h.log.Warn("a cache could not be copied whole, and keeps what it is a copy of", "key", key, "error", err)
	}
	for _, old := range slices.Backward(older) { // those that are not in use any more
		if err := h.removeUnused(ctx, &Artifact{ID: old.ID, Name: old.Name}); err != nil && !errors.Is(err, sdk.ReasonInUse) {
			h.log.Warn("an older cache stays until it is reaped", "key", key, "error", err)
		}
	}
	return nil
}

// supersede takes a key from what is under it, which goes as soon as nothing uses it. What is given back are all the rows that are on
// their way out with that key for a source, the oldest first.
func (h *Host) supersede(tx *store.Tx, key string, now time.Time) ([]store.Artifact, error) {
	rows, err := tx.Artifacts(store.ArtifactFilter{Key: key})
	if err != nil {
		return nil, err
	}
	gone, err := tx.Artifacts(store.ArtifactFilter{Key: supersededKey(key)})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		row.Key, row.ExpiresAt = supersededKey(key), now
		if err := h.putArtifact(tx, row); err != nil {
			return nil, err
		}
		gone = append(gone, row)
	}
	return gone, nil
}

// supersededKey is the key of what was under a key before.
func supersededKey(key string) string { return "old:" + key }

// flatten copies a cache's volume whole if it is a copy of a copy too often, so that the older ones can go.
func (h *Host) flatten(ctx context.Context, a *Artifact, row store.Volume) error {
	generations := 0
	for at := row; at.Parent != "" && generations < maxCacheChain; generations++ {
		var err error
		if at, err = h.volume(ctx, at.Parent); errors.Is(err, store.ErrNotFound) {
			break
		} else if err != nil {
			return err
		}
	}
	if generations < maxCacheChain {
		return nil
	}
	w, err := h.worker(row.Worker)
	if err != nil {
		return err
	}
	filled := make(chan struct{})
	_, err = h.fill(ctx, a, source{name: w.name, worker: w, volume: row}, w, h.relay(a, row.ID, turn{func() {}, filled}), nil)
	close(filled)
	if err != nil {
		return err
	}
	return h.giveUp(ctx, row)
}

// giveUp destroys a replica of which there is another on its worker, unless somebody uses it.
func (h *Host) giveUp(ctx context.Context, row store.Volume) error {
	used := func(tx *store.Tx) (bool, error) {
		if _, err := tx.Artifact(row.Artifact); err != nil { // whoever has removed it has doomed all that it had
			return false, ignoreNotFound(err)
		}
		children, err := tx.Volumes(store.VolumeFilter{Parent: row.ID})
		return len(children) > 0 || h.inUse(row.Artifact), err
	}
	going, err := h.doomUnused(ctx, row, used)
	if err != nil || !going {
		return err
	}
	return h.awaitGone(ctx, row.Worker, destroyPatience, volumeThing(row.ID))
}

// forgetCache deletes the row of a cache that nothing has the content of any more.
func (h *Host) forgetCache(tx *store.Tx, id string) error {
	a, err := tx.Artifact(id)
	if err != nil {
		return ignoreNotFound(err)
	}
	empty, err := h.isEmptyCache(tx, a)
	if err != nil || !empty {
		return err
	}
	return h.deleteArtifact(tx, id)
}

// isEmptyCache tells whether an artifact is a cache whose content is nowhere: its replicas were given up or lost.
func (h *Host) isEmptyCache(tx *store.Tx, a store.Artifact) (bool, error) {
	h.mu.Lock()
	_, local := h.local[a.ID]
	h.mu.Unlock()
	if a.Key == "" || local {
		return false, nil
	}
	whole, err := hasContent(tx, a)
	return !whole, err
}

// doomUnused notes that a replica is to be destroyed, unless it is used, and tells whether it is so. With the last one of a cache its row goes.
func (h *Host) doomUnused(ctx context.Context, row store.Volume, used func(*store.Tx) (bool, error)) (going bool, err error) {
	defer h.reconciler(row.Worker).hold(volumeThing(row.ID))() // it may come back to life
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		going = false
		if now, err := tx.Volume(row.ID); err != nil || now.State != lifecycle.VolumeSealed { // it goes without this
			return ignoreNotFound(err)
		}
		if in, err := used(tx); err != nil || in {
			return err
		}
		m, err := h.moveVolume(tx, row.ID, lifecycle.Doomed, nil)
		going = m.yes
		return err
	})
	if err != nil || !going {
		return false, err
	}
	h.fault("replica-doomed")
	// Whoever looked it up before it was marked has noted its use by now; who looks later finds the other.
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		in, err := used(tx)
		if going = !in; err != nil {
			return err
		}
		if going {
			return h.forgetCache(tx, row.Artifact)
		}
		_, err = h.moveVolume(tx, row.ID, lifecycle.Kept, nil)
		return err
	})
	return going && err == nil, err
}
