package host

import (
	"cmp"
	"context"
	"fmt"
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
	// time; its context ends when the last of them has left.
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
		if a, err := h.useCache(ctx, key, req.ValidAt, nil); a != nil || err != nil { // since the last look
			return a, err
		}
		called.Store(true)
		a, err := req.Make(ctx)
		if err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return a, h.register(ctx, a, key, req, func(store.Artifact) error { return nil })
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
// nobody has used it for its TTL. Idempotent. An artifact of a run is refused: that goes with its run.
func (h *Host) KeepCache(ctx context.Context, a *Artifact, req CacheRequest) error {
	if req.Key == "" || req.TTL < 0 {
		return sdk.NewInvalid(sdk.ReasonSpec, "a cache needs a key, and no negative time to live")
	}
	return h.register(ctx, a, resourceCacheKey(req.Team, req.Key), req, func(row store.Artifact) error {
		if run := RunOf(row.Owner); run != "" {
			return sdk.NewInvalid(sdk.ReasonSpec, "artifact %s belongs to run %s, and goes with it: bring one of its own", a.Name, run)
		}
		return nil
	})
}

// InvalidateCache says that what is under a key is not what the key stands for any more. Requests of an earlier time still get it.
func (h *Host) InvalidateCache(ctx context.Context, team, key string) error {
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{Key: resourceCacheKey(team, key)})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !row.InvalidAt.IsZero() {
				continue
			}
			row.InvalidAt = h.clock.wall()
			if err := h.putArtifact(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

func resourceCacheKey(team, key string) string { return cacheKey(string(ResourceCache), team, key) }

// register puts an artifact under a key, unless may says why not. What was there and is valid still gives way: its content is not to be had.
func (h *Host) register(ctx context.Context, a *Artifact, key string, req CacheRequest, may func(store.Artifact) error) error {
	now := h.clock.wall()
	ttl := cmp.Or(req.TTL, h.cacheTTL())
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Artifact(a.ID)
		if err != nil {
			return noArtifact(a.Name, err)
		}
		if err := may(row); err != nil {
			return err
		}
		if row.Key != "" && row.Key != key {
			return sdk.NewInvalid(sdk.ReasonSpec, "artifact %s is a cache already, under another key: make one of its own", a.Name)
		}
		older, err := tx.Artifacts(store.ArtifactFilter{Key: key})
		if err != nil {
			return err
		}
		for _, old := range older {
			if old.ID == a.ID || !old.InvalidAt.IsZero() {
				continue
			}
			old.Key, old.ExpiresAt = supersededKey(key), now
			if err := h.putArtifact(tx, old); err != nil {
				return err
			}
		}
		row.Key, row.Team, row.Source, row.Owner = key, req.Team, req.Source, ""
		row.TTL, row.UsedAt, row.ExpiresAt, row.InvalidAt = ttl, now, now.Add(ttl), time.Time{}
		return h.putArtifact(tx, row)
	})
}
