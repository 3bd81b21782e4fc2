package host

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
)

// ArtifactReport describes an artifact to people.
type ArtifactReport struct {
	Artifact
	Owner  string    // empty: nobody's, so that it goes at Expires
	Team   string    // empty: nobody's in particular
	Key    string    // of a cache; else empty
	Source string    // what a cache was made of; else empty
	Bytes  int64     // of its content; 0: unknown
	Made   time.Time // in UTC
	Used   time.Time // when it was last; zero: unknown
	// Expires is when it goes, or may where it is in use then; zero: its owner decides.
	Expires time.Time
	Invalid time.Time // since when a cache is not what its key stands for any more; zero: it is
	Places  []string  // where its content is: workers, and "host" for the state directory; none: nowhere, it can only be removed
}

// CacheKind is who keeps a cache.
type CacheKind string

// The kinds of caches.
const (
	ResourceCache CacheKind = "resource" // whoever asks for it by its key: see CacheRequest
	TaskCache     CacheKind = "task"     // a step, for its next run
)

// Cache gives what kind of cache an artifact is, and its key as those who use it know it: of a task its scope, step and path. It is none, or no more, where ok is false.
func (r ArtifactReport) Cache() (kind CacheKind, key string, ok bool) {
	before, escaped, _ := strings.Cut(r.Key, ":")
	kind = CacheKind(before)
	if kind != ResourceCache && kind != TaskCache {
		return "", "", false
	}
	_, escaped, _ = strings.Cut(escaped, "/") // its team
	parts := strings.Split(escaped, "/")
	for i, p := range parts {
		if text, err := url.PathUnescape(p); err == nil {
			parts[i] = text
		}
	}
	return kind, strings.Join(parts, "/"), true
}

// ArtifactFilter selects artifacts; a zero field selects all.
type ArtifactFilter struct {
	Prefix string // of the name
	Team   string
	Caches bool // caches only
}

// Artifacts lists artifacts in the order of their making.
func (h *Host) Artifacts(ctx context.Context, f ArtifactFilter) ([]ArtifactReport, error) {
	var out []ArtifactReport
	err := h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !strings.HasPrefix(row.Name, f.Prefix) || f.Team != "" && row.Team != f.Team || f.Caches && row.Key == "" {
				continue
			}
			volumes, err := tx.Volumes(store.VolumeFilter{Artifact: row.ID, States: []string{lifecycle.VolumeSealed}})
			if err != nil {
				return err
			}
			out = append(out, h.describe(row, volumes))
		}
		return nil
	})
	return out, err
}

func (h *Host) describe(row store.Artifact, volumes []store.Volume) ArtifactReport {
	r := ArtifactReport{Artifact: Artifact{ID: row.ID, Name: row.Name}, Owner: row.Owner, Team: row.Team, Key: row.Key, Source: row.Source,
		Bytes: row.Bytes, Made: row.CreatedAt, Used: row.UsedAt, Invalid: row.InvalidAt}
	if row.Owner == "" {
		r.Expires = h.artifactGoes(row)
	}
	for _, v := range volumes {
		r.Places = append(r.Places, v.Worker)
		r.Bytes = max(r.Bytes, v.Bytes)
	}
	slices.Sort(r.Places)
	r.Places = slices.Compact(r.Places)
	h.mu.Lock()
	_, local := h.local[row.ID]
	h.mu.Unlock()
	if row.Blob != "" {
		r.Places = append(r.Places, hostSource)
	}
	if local {
		r.Places = append(r.Places, localSource)
	}
	return r
}
