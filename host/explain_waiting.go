package host

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
)

// Holder is who has, on a worker, of what there is too little there for somebody who waits.
type Holder struct {
	Owner string // of a container; empty: it is no container's
	Has   string // for people
}

// String is both.
func (o Holder) String() string {
	if o.Owner == "" {
		return o.Has
	}
	return o.Owner + " (" + o.Has + ")"
}

// Waiting lists who waits for a place on a worker, the first to be served first, and then who waits for a turn, of those whose owners begin with a prefix. What each
// of the workers lacks for them [Host.ExplainOwner] tells.
func (h *Host) Waiting(ctx context.Context, ownerPrefix string) ([]*Explanation, error) {
	turns := h.turnWaits() // first: a step whose turn comes meanwhile is found where it is then
	var out []*Explanation
	placing := make(map[string]bool)
	for i, w := range h.queue.Waiting() {
		if placing[w.Owner] || !strings.HasPrefix(w.Owner, ownerPrefix) {
			continue
		}
		placing[w.Owner] = true
		e, err := h.explainWaiter(ctx, w, i+1)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	for _, w := range turns {
		if !placing[w.owner] && strings.HasPrefix(w.owner, ownerPrefix) {
			out = append(out, w.explain())
		}
	}
	return out, nil
}

// explainWaiter tells of one who waits for a place, but for what workers lack for it.
func (h *Host) explainWaiter(ctx context.Context, w pool.Waiter, position int) (e *Explanation, err error) {
	e = &Explanation{Owner: w.Owner, State: PlacementWaiting, Waited: time.Since(w.Since), Position: position, Priority: w.Spec.Priority,
		Reserved: w.Reserved, ReservedUntil: w.Until}
	if w.Reserved != "" {
		e.InTheWay, err = h.inTheWay(ctx, w)
	}
	return e, err
}

// inTheWay lists who has of what there is too little for w on the worker that is reserved for it, by owner; then what no container has.
func (h *Host) inTheWay(ctx context.Context, w pool.Waiter) ([]Holder, error) {
	leases, lacks := h.queue.InTheWay(w)
	has := make(map[string][]string)
	for _, l := range leases {
		has[l.Owner] = nil
		if slices.Contains(lacks, pool.FullResources) {
			has[l.Owner] = w.Spec.Resources.Of(l.Resources)
		}
	}
	var rest []Holder
	if slices.Contains(lacks, pool.FullVolumes) {
		by, others, err := h.volumesInTheWay(ctx, w.Reserved)
		if err != nil {
			return nil, err
		}
		for owner, n := range by {
			has[owner] = append(has[owner], plural(n, "volume"))
		}
		rest = others
		for _, l := range leases { // what it is still to get
			if l.Volumes > 0 {
				has[l.Owner] = append(has[l.Owner], plural(l.Volumes, "volume")+" claimed")
			}
		}
	}
	var out []Holder
	for _, owner := range slices.Sorted(maps.Keys(has)) {
		out = append(out, Holder{owner, cmp.Or(strings.Join(has[owner], ", "), "a place")})
	}
	return append(out, rest...), nil
}

// volumesInTheWay counts the volumes of a worker: those of containers by owner.
func (h *Host) volumesInTheWay(ctx context.Context, worker string) (by map[string]int, rest []Holder, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
		if err != nil {
			return err
		}
		of := make(map[string]int) // volumes by container
		by = make(map[string]int)
		going, others := 0, 0
		for _, v := range rows {
			switch {
			case v.State == lifecycle.VolumeDestroying:
				going++
			case v.Container == "":
				others++
			default:
				of[v.Container]++
			}
		}
		for id, n := range of {
			c, err := tx.Container(id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if c.Owner == "" {
				others += n
				continue
			}
			by[c.Owner] += n
		}
		rest = nil
		if others > 0 {
			rest = append(rest, Holder{Has: plural(others, "volume") + " of artifacts and caches"})
		}
		if going > 0 {
			rest = append(rest, Holder{Has: plural(going, "volume") + " being destroyed"})
		}
		return nil
	})
	return by, rest, err
}
