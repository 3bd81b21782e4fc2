package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
)

// candidate is a replica on a full worker that could go: nothing uses it, and nothing is made of it but other candidates.
type candidate struct {
	row       store.Volume
	artifact  store.Artifact
	elsewhere bool // what it has is elsewhere too, as surely
	copying   bool // it is being copied to somewhere else
	copied    bool // it can be copied, as far as is known
	used      time.Time
}

func (c candidate) cache() bool { return c.artifact.Key != "" }

// copyFirst tells whether what a candidate has must be copied before it goes, for somebody who wants it or not. A cache can be made again: it is copied only for who
// goes on from it, and not even for him where that cannot be done.
func (c candidate) copyFirst(wanted bool) bool {
	if c.cache() {
		return wanted && !c.elsewhere && (c.copied || c.copying)
	}
	return !c.elsewhere
}

// cost orders candidates for somebody: what can go at once, what has to be copied before, and what he wants himself, which then is brought anew. That
// makes room only where it is a copy of older ones, which cannot go before it.
func (c candidate) cost(wanted bool) int {
	switch {
	case wanted:
		return 2
	case c.copyFirst(false):
		return 1
	}
	return 0
}

// choose picks what is to go for somebody who lacks room for n volumes, children before what they are made of: as little as will do, and of that what costs the
// least, the first first. Nil: all of it would not do.
func choose(all []candidate, wants map[string]bool, n int) []candidate {
	left := slices.Clone(all)
	slices.SortStableFunc(left, func(a, b candidate) int {
		wantA, wantB := wants[a.row.Artifact], wants[b.row.Artifact]
		if c := cmp.Compare(a.cost(wantA), b.cost(wantB)); c != 0 || a.copying == b.copying {
			return c
		}
		if a.copying {
			return -1
		}
		return 1
	})
	var chosen []candidate
	for gained(chosen, wants) < n {
		next := slices.IndexFunc(left, func(c candidate) bool { return !isParent(c, left) })
		if next < 0 {
			return nil
		}
		chosen = append(chosen, left[next])
		left = slices.Delete(left, next, next+1)
	}
	for i := len(chosen) - 1; i >= 0; i-- { // what was taken before something cheaper turned up behind it
		without := slices.Delete(slices.Clone(chosen), i, i+1)
		parentGoes := slices.ContainsFunc(without, func(c candidate) bool { return c.row.ID == chosen[i].row.Parent })
		if !parentGoes && gained(without, wants) >= n {
			chosen = without
		}
	}
	return chosen
}

// isParent tells whether one of the others is made of a candidate.
func isParent(c candidate, others []candidate) bool {
	return slices.ContainsFunc(others, func(o candidate) bool { return o.row.Parent == c.row.ID })
}

// gained is how much more room there is for somebody once candidates are gone: less a volume for each content that he then has to be brought.
func gained(gone []candidate, wants map[string]bool) int {
	again := make(map[string]bool)
	for _, c := range gone {
		if wants[c.row.Artifact] {
			again[c.row.Artifact] = true
		}
	}
	return len(gone) - len(again)
}

// couldGo lists what could go from a worker, those first that were used the longest ago: as far as this host knows, else as their artifacts were, or they were
// made. Open tells whether there are volumes that are being made or written.
func (h *Host) couldGo(ctx context.Context, worker string) (out []candidate, open bool, err error) {
	w, err := h.worker(worker)
	if err != nil {
		return nil, false, err
	}
	up := w.report().Up
	children := make(map[string][]store.Volume)
	err = h.store.View(ctx, func(tx *store.Tx) error {
		out, open = nil, false
		clear(children)
		rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
		if err != nil {
			return err
		}
		mounted, going, err := imagesInUse(tx)
		if err != nil {
			return err
		}
		for _, v := range rows {
			if v.Parent != "" {
				children[v.Parent] = append(children[v.Parent], v)
			}
		}
		for _, v := range rows {
			open = open || v.State == lifecycle.VolumeCreating || v.State == lifecycle.VolumeOpen
			if v.State != lifecycle.VolumeSealed || v.Artifact == "" || mounted[v.ID] || going[v.ID] || h.index.Claimed(worker, v.Artifact) {
				continue
			}
			a, err := tx.Artifact(v.Artifact)
			if errors.Is(err, store.ErrNotFound) { // it is being removed
				continue
			}
			if err != nil {
				return err
			}
			c := candidate{row: v, artifact: a, used: a.UsedAt}
			if c.elsewhere, err = h.elsewhere(tx, a, v); err != nil {
				return err
			}
			c.copying = h.rooms.copying(a.ID)
			c.copied = up && !h.doubts.has(v.ID) && !h.rooms.pauses(a.ID)
			if h.beingRead(a.ID) && !c.copying || !c.elsewhere && !c.cache() && !c.copied && !c.copying {
				continue
			}
			out = append(out, c)
		}
		return nil
	})
	for before := -1; before != len(out); { // what something is made of that stays, stays
		before = len(out)
		may := make(map[string]bool, len(out))
		for _, c := range out {
			may[c.row.ID] = true
		}
		out = slices.DeleteFunc(out, func(c candidate) bool {
			return slices.ContainsFunc(children[c.row.ID], func(v store.Volume) bool { return !may[v.ID] })
		})
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(h.index.LastUse(worker, a.row.Artifact), h.index.LastUse(worker, b.row.Artifact)), a.used.Compare(b.used),
			a.row.CreatedAt.Compare(b.row.CreatedAt), cmp.Compare(a.row.ID, b.row.ID))
	})
	return out, open, err
}
