package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// CacheRequest asks for content that is made once and used often, such as a version of a repository.
type CacheRequest struct {
	Key    string // says all that the content depends on; any text
	Team   string // whose it is; the same key of another team is another one
	Source string // what it is made of, for people

	// ValidAt is when the content must have been what its key stands for: what was invalidated later will do. Zero: now.
	ValidAt time.Time
	TTL     time.Duration // how long it is kept after its last use; zero: Options.CacheTTL, or the configuration's

	// Make makes the content, as an artifact that then belongs to the cache. It is called by one caller for all who want the key at the same
	// time, unless that is invalidated meanwhile; its context ends when the last of them has left.
	Make func(ctx context.Context) (*Artifact, error)
}

// Cached gives the content under a key, on whatever worker it is; made tells whether Make was called for it. It is registered only after Make has
// succeeded, and is then there for all, on every worker that it is brought to. Where its content was lost with the workers that had
// it, it is made again.
func (h *Host) Cached(ctx context.Context, req CacheRequest) (_ *Artifact, made bool, err error) {
	var called atomic.Bool // by what may outlive this call, for others who wait for it
	if req.Key == "" || req.Make == nil || req.TTL < 0 {
		return nil, false, sdk.NewInvalid(sdk.ReasonSpec, "a cache needs a key, something that makes its content, and no negative time to live")
	}
	key := resourceCacheKey(req.Team, req.Key)
	if a, err := h.useCache(ctx, key, req.ValidAt, nil); a != nil || err != nil {
		return a, false, err
	}
	a, err := h.caching.do(ctx, key, func(ctx context.Context) (*Artifact, error) {
		// Since the last look. Others may wait for this by now, so it has to be valid for all of them.
		if a, err := h.useCache(ctx, key, time.Time{}, nil); a != nil || err != nil {
			return a, err
		}
		m := h.beginMaking(key)
		defer h.endMaking(m)
		called.Store(true)
		a, err := req.Make(ctx)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return a, h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
			row, err := tx.Artifact(a.ID)
			if err != nil {
				return noArtifact(a.Name, err)
			}
			return h.register(tx, row, key, req, h.invalidSince(m))
		})
	})
	if err != nil {
		return nil, false, fmt.Errorf("cache %s: %w", req.Key, err)
	}
	return a, called.Load(), nil
}

// FindCache gives the content under a key that can be had and was valid at a time, as [Host.Cached] does, and makes nothing. Zero is now. One that is not there is
// sdk.NotFound of KindArtifact.
func (h *Host) FindCache(ctx context.Context, team, key string, validAt time.Time) (*Artifact, error) {
	if key == "" {
		return nil, sdk.NewInvalid(sdk.ReasonSpec, "a cache's key is missing")
	}
	a, err := h.useCache(ctx, resourceCacheKey(team, key), validAt, nil)
	if err == nil && a == nil {
		err = &sdk.Error{Class: sdk.NotFound, Kind: KindArtifact, ID: key, Message: fmt.Sprintf("there is no cache under %s: make its content, and keep that", key)}
	}
	return a, err
}

// KeepCache puts an artifact under a key, in place of what is there, as [Host.Cached] does with what Make has made. It is nobody's from then on, and goes when
// nobody has used it for its TTL. An artifact of a run is refused: that goes with its run.
//
// Of two that are kept under one key the last is valid, since only who keeps it can know that what is there will not do. Whoever has been given the other can use it
// for a while yet: it stays for the grace of what is missing, or for its TTL if that is less.
//
// What is given is the artifact that is valid under the key from then on. Keeping an artifact again counts as a use of it while it is valid, and is otherwise no news of its content:
// one that was invalidated, or superseded by another, since it was kept remains so. Then what is given is the other one, or nil where nothing is valid.
func (h *Host) KeepCache(ctx context.Context, a *Artifact, req CacheRequest) (valid *Artifact, err error) {
	if req.Key == "" || req.TTL < 0 {
		return nil, sdk.NewInvalid(sdk.ReasonSpec, "a cache needs a key, and no negative time to live")
	}
	key := resourceCacheKey(req.Team, req.Key)
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Artifact(a.ID)
		if err != nil {
			return noArtifact(a.Name, err)
		}
		if run := RunOf(row.Owner); run != "" {
			return sdk.NewInvalid(sdk.ReasonSpec, "artifact %s belongs to run %s, and goes with it: bring one of its own", a.Name, run)
		}
		if row.Key == supersededKey(key) || row.Key == key && !row.InvalidAt.IsZero() {
			rows, err := validUnder(tx, key)
			for _, row := range rows {
				valid = &Artifact{ID: row.ID, Name: row.Name}
			}
			return err
		}
		valid = a
		return h.register(tx, row, key, req, time.Time{})
	})
	if err != nil {
		return nil, err
	}
	return valid, nil
}

// InvalidateCache says that what is under a key is not what the key stands for any more. Requests of an earlier time still get it. So it is with what [Host.Cached] is
// just making under the key: those who wait for it get it, and whoever asks from now on has it made anew. What a client makes to keep it by [Host.KeepCache] the host
// does not know of, and takes for valid when it is kept.
func (h *Host) InvalidateCache(ctx context.Context, team, key string) error {
	key = resourceCacheKey(team, key)
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		now := h.clock.wall()
		h.invalidateMakings(key, now) // before anything is registered that this does not see
		tx.Committed(func() { h.caching.detach(key) })
		rows, err := validUnder(tx, key)
		if err != nil {
			return err
		}
		for _, row := range rows {
			row.InvalidAt = now
			if err := h.putArtifact(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

func resourceCacheKey(team, key string) string { return cacheKey(string(ResourceCache), team, key) }

// validUnder lists what is under a key and was not invalidated.
func validUnder(tx *store.Tx, key string) ([]store.Artifact, error) {
	rows, err := tx.Artifacts(store.ArtifactFilter{Key: key})
	return slices.DeleteFunc(rows, func(row store.Artifact) bool { return !row.InvalidAt.IsZero() }), err
}

// register puts an artifact under a key, as invalid since a time, or valid where that is zero. Then what was there and is valid gives way, and stays for a grace:
// somebody may have been given it a moment ago.
func (h *Host) register(tx *store.Tx, row store.Artifact, key string, req CacheRequest, invalid time.Time) error {
	if row.Key != "" && row.Key != key {
		return sdk.NewInvalid(sdk.ReasonSpec, "artifact %s is a cache already, under another key: make one of its own", row.Name)
	}
	now := h.clock.wall()
	if invalid.IsZero() {
		older, err := validUnder(tx, key)
		if err != nil {
			return err
		}
		for _, old := range older {
			if old.ID == row.ID {
				continue
			}
			old.Key, old.TTL = supersededKey(key), min(h.ttlOf(old), h.cfg().Timing.MissingGrace)
			old.ExpiresAt = now.Add(old.TTL)
			if err := h.putArtifact(tx, old); err != nil {
				return err
			}
		}
	}
	ttl := cmp.Or(req.TTL, h.cacheTTL())
	row.Key, row.Team, row.Source, row.Owner = key, req.Team, req.Source, ""
	row.TTL, row.UsedAt, row.ExpiresAt, row.InvalidAt = ttl, now, now.Add(ttl), invalid
	return h.putArtifact(tx, row)
}

// cacheMaking is content of a cache while it is being made.
type cacheMaking struct {
	key     string
	invalid time.Time // when the key was invalidated since it began; zero: it was not
}

func (h *Host) beginMaking(key string) *cacheMaking {
	m := &cacheMaking{key: key}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.makings[m] = true
	return m
}

func (h *Host) endMaking(m *cacheMaking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.makings, m)
}

func (h *Host) invalidSince(m *cacheMaking) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return m.invalid
}

func (h *Host) invalidateMakings(key string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for m := range h.makings {
		if m.key == key && m.invalid.IsZero() {
			m.invalid = now
		}
	}
}
