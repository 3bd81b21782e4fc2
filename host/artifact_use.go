package host

import (
	"cmp"
	"context"
	"slices"

	"github.com/slipway-run/slipway/host/store"
)

// counts are how many want an artifact, by its id.
type counts map[string]int

// using notes that somebody reads an artifact: until done is called it does not expire, and the host keeps its blob. The zero id is
// nobody's.
func (h *Host) using(id string) (done func()) { return h.count(h.readers, id) }

func (h *Host) count(in counts, id string) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in[id]++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if in[id]--; in[id] == 0 {
			delete(in, id)
			h.queue.Nudge()                                     // its replicas may be spare from now on
			h.expiries.letGo(artifactThing(id), h.clock.wall()) // its time may have passed
		}
	}
}

// beingRead tells whether somebody reads an artifact.
func (h *Host) beingRead(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers[id] > 0
}

// inUse tells whether somebody reads an artifact, or will.
func (h *Host) inUse(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers[id] > 0 || h.holders[id] > 0
}

// holds are artifacts that some work needs, now or later: until it lets go of them they do not expire, nor go because others take their
// place. Where their content is may still change. It is for one goroutine.
type holds struct {
	h    *Host
	done []func()
}

func (s *holds) add(id string) { s.done = append(s.done, s.h.count(s.h.holders, id)) }

func (s *holds) letGo() {
	for _, done := range s.done {
		done()
	}
}

func sortByUse(rows []store.Artifact) {
	slices.SortFunc(rows, func(a, b store.Artifact) int { return cmp.Or(a.UsedAt.Compare(b.UsedAt), cmp.Compare(a.ID, b.ID)) })
}

// Disown gives up artifacts of owners that begin so: from now on they go after their time. An empty prefix is nobody.
func (h *Host) Disown(ctx context.Context, ownerPrefix string) error {
	if ownerPrefix == "" {
		return nil
	}
	now := h.clock.wall()
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		rows, err := tx.Artifacts(store.ArtifactFilter{OwnerPrefix: ownerPrefix})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Key != "" {
				continue // of a cache
			}
			row.Owner, row.ExpiresAt = "", now.Add(cmp.Or(row.TTL, h.artifactTTL()))
			if err := h.putArtifact(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}
