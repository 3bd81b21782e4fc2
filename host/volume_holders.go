package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
)

// Here it is found out what holds the room for volumes of a worker, for those who wait for some there: see [pool.Holder].

// volumeHolders lists what has volumes on a worker, or is still to get some there, those that have the most first.
func (h *Host) volumeHolders(ctx context.Context, worker string) (pool.Holders, error) {
	claims := h.index.Claims(worker)
	var out pool.Holders
	err := h.store.View(ctx, func(tx *store.Tx) error {
		out = slices.Clone(claims)
		rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
		if err != nil {
			return err
		}
		at := make(map[pool.Holder]int) // by what identifies it
		for i, o := range out {
			at[pool.Holder{Owner: o.Owner, Team: o.Team}] = i
		}
		for _, v := range rows {
			of, why, err := h.holder(tx, v)
			if err != nil {
				return err
			}
			i, known := at[of]
			if !known {
				i = len(out)
				at[of], out = i, append(out, of)
			}
			out[i].Volumes++
			out[i].Why = cmp.Or(out[i].Why, why)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b pool.Holder) int {
		return cmp.Or(cmp.Compare(b.Volumes+b.Claimed, a.Volumes+a.Claimed), cmp.Compare(a.String(), b.String()))
	})
	return out, err
}

// holder names what has a volume, and says why that stays.
func (h *Host) holder(tx *store.Tx, v store.Volume) (of pool.Holder, why string, err error) {
	going := pool.Holder{Going: true}
	switch {
	case v.State == lifecycle.VolumeDestroying:
		return going, "", nil
	case v.Container != "":
		c, err := tx.Container(v.Container)
		if err != nil || c.Owner == "" {
			return going, "", ignoreNotFound(err)
		}
		kept, err := isKept(c)
		if kept {
			why = "kept since its command failed"
		}
		return pool.Holder{Owner: c.Owner, Team: c.Team}, why, err
	case v.Artifact == "":
		return pool.Holder{}, "", nil
	}
	a, err := tx.Artifact(v.Artifact)
	if err != nil {
		return going, "", ignoreNotFound(err)
	}
	if a.Key != "" {
		return pool.Holder{Cache: strings.TrimPrefix(a.Key, supersededKey("")), Team: a.Team}, "", nil
	}
	var whys []string
	if run, step := h.neededBy(a); step != "" {
		whys = append(whys, fmt.Sprintf("step %s of run %s needs it", step, run))
	} else if run != "" {
		whys = append(whys, fmt.Sprintf("run %s needs it", run))
	}
	if failed := h.rooms.failed(a.ID); failed != nil {
		whys = append(whys, fmt.Sprintf("the last copy, which could not be copied elsewhere: %v", failed))
	}
	return pool.Holder{Artifact: a.Name, Team: a.Team}, strings.Join(whys, "; "), nil
}

// neededBy names a run under way that needs an artifact, and the first of its steps that does; empty: it is for an output, or just being made.
func (h *Host) neededBy(a store.Artifact) (run, step string) {
	for _, r := range h.goingRuns() {
		if s, wants := r.wants(a); wants {
			if s != nil {
				step = s.Name
			}
			return r.id, step
		}
	}
	return "", ""
}

// maxHeld is of how many full workers it is said what holds their room.
const maxHeld = 8

// sayHolders adds to verdicts on full workers what holds their room, as a team may hear of it; empty: as the operator may.
func (h *Host) sayHolders(ctx context.Context, verdicts []pool.Verdict, team string) error {
	named := 0
	for i := range verdicts {
		v := &verdicts[i]
		if v.Reason != pool.FullVolumes || named == maxHeld {
			continue
		}
		named++
		all, err := h.volumeHolders(ctx, v.Worker)
		if err != nil {
			return err
		}
		v.Holders = all.SeenBy(team)
		if len(v.Holders) > 0 {
			v.Detail += "; held by " + v.Holders.String()
		}
	}
	return nil
}

// inTheWay lists what has of what there is too little for w on the worker that is reserved for it.
func (h *Host) inTheWay(ctx context.Context, w pool.Waiter) (pool.Holders, error) {
	containers, volumes := h.queue.InTheWay(w)
	if !volumes {
		return containers, nil
	}
	out, err := h.volumeHolders(ctx, w.Reserved)
	for _, o := range containers {
		if i := slices.IndexFunc(out, func(v pool.Holder) bool { return v.Owner == o.Owner }); i >= 0 {
			out[i].Resources = o.Resources
		} else {
			out = append(out, o)
		}
	}
	return out, err
}
