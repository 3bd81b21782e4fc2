package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
)

// roomHolder is what has volumes on a worker, for people who wait for room there.
type roomHolder struct {
	what    string // a container's owner, an artifact's name, a cache
	why     string // it stays; may be empty
	volumes int
}

func (r roomHolder) String() string {
	text := fmt.Sprintf("%s (%s", r.what, plural(r.volumes, "volume"))
	if r.why != "" {
		text += ", " + r.why
	}
	return text + ")"
}

// maxHolders is how many of those that hold a worker's room are named.
const maxHolders = 8

// roomHeldBy lists what holds the room of a worker, those that have the most first.
func (h *Host) roomHeldBy(ctx context.Context, worker string) ([]roomHolder, error) {
	by := make(map[string]*roomHolder)
	leases := h.index.Leases(worker)
	err := h.store.View(ctx, func(tx *store.Tx) error {
		clear(by)
		add := func(what, why string, n int) {
			if by[what] == nil {
				by[what] = &roomHolder{what: what}
			}
			by[what].volumes += n
			by[what].why = cmp.Or(by[what].why, why)
		}
		rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
		if err != nil {
			return err
		}
		for _, v := range rows {
			what, why, err := h.holder(tx, v)
			if err != nil {
				return err
			}
			add(what, why, 1)
		}
		for _, l := range leases {
			if l.Volumes > 0 {
				add("the container of "+l.Owner, "claimed for it", l.Volumes)
			}
		}
		return nil
	})
	var out []roomHolder
	for _, r := range by {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b roomHolder) int {
		return cmp.Or(cmp.Compare(b.volumes, a.volumes), cmp.Compare(a.what, b.what))
	})
	return out, err
}

// holder says what has a volume, and why that stays.
func (h *Host) holder(tx *store.Tx, v store.Volume) (what, why string, err error) {
	switch {
	case v.State == lifecycle.VolumeDestroying:
		return "what is being destroyed", "", nil
	case v.Container != "":
		c, err := tx.Container(v.Container)
		if err != nil {
			return "a container that is being destroyed", "", ignoreNotFound(err)
		}
		if kept, err := isKept(c); err != nil || kept {
			return "the container of " + c.Owner, "kept since its command failed", err
		}
		return "the container of " + c.Owner, "", nil
	case v.Artifact == "":
		return "what nobody owns", "", nil
	}
	a, err := tx.Artifact(v.Artifact)
	if err != nil {
		return "what is being destroyed", "", ignoreNotFound(err)
	}
	if a.Key != "" {
		return "cache " + strings.TrimPrefix(a.Key, supersededKey("")), "", nil
	}
	if failed := h.rooms.failed(a.ID); failed != nil {
		why = fmt.Sprintf("the last copy, which could not be copied elsewhere: %v", failed)
	}
	if run, step := h.neededBy(a); run != "" {
		text := "run " + run + " needs it"
		if step != "" {
			text = fmt.Sprintf("step %s of run %s needs it", step, run)
		}
		why = strings.TrimSuffix(text+"; "+why, "; ")
	}
	return "artifact " + a.Name, why, nil
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

// sayHolders adds to verdicts on full workers what holds their room.
func (h *Host) sayHolders(ctx context.Context, verdicts []pool.Verdict) error {
	named := 0
	for i := range verdicts {
		v := &verdicts[i]
		if v.Reason != pool.FullVolumes || named == maxHolders {
			continue
		}
		named++
		all, err := h.roomHeldBy(ctx, v.Worker)
		if err != nil {
			return err
		}
		var parts []string
		for _, r := range all[:min(len(all), maxHolders)] {
			parts = append(parts, r.String())
		}
		if more := len(all) - len(parts); more > 0 {
			parts = append(parts, fmt.Sprintf("and %d more", more))
		}
		if len(parts) > 0 {
			v.Detail += "; held by " + strings.Join(parts, ", ")
		}
	}
	return nil
}

// roomWait is one who is told what becomes of his room.
type roomWait struct {
	tell func(text string)
	last string
	at   time.Time
}

// tellRoomEvery is how often one who waits is told at most what holds the room, which changes with all that goes on.
const tellRoomEvery = time.Minute

// hearRoom has an owner who waits told of his room until stop is called.
func (h *Host) hearRoom(owner string, tell func(text string)) (stop func()) {
	h.rooms.mu.Lock()
	defer h.rooms.mu.Unlock()
	if h.rooms.waiting == nil {
		h.rooms.waiting = make(map[string]*roomWait)
	}
	h.rooms.waiting[owner] = &roomWait{tell: tell}
	return func() {
		h.rooms.mu.Lock()
		defer h.rooms.mu.Unlock()
		delete(h.rooms.waiting, owner)
	}
}

// tellRoom tells one who waits what becomes of his room, unless he knows.
func (h *Host) tellRoom(owner, text string) {
	h.rooms.mu.Lock()
	w := h.rooms.waiting[owner]
	tell := w != nil && w.last != text
	if tell {
		w.last = text
	}
	h.rooms.mu.Unlock()
	if tell {
		w.tell(text)
	}
}

// tellNoRoom tells one who waits that no room can be made for him, what holds it, and what would help.
func (h *Host) tellNoRoom(ctx context.Context, who pool.Waiter) {
	h.rooms.mu.Lock()
	w := h.rooms.waiting[who.Owner]
	due := w != nil && (w.at.IsZero() || time.Since(w.at) >= tellRoomEvery)
	if due {
		w.at = time.Now()
	}
	h.rooms.mu.Unlock()
	if !due {
		return
	}
	if _, err := h.explainWait(ctx, who); err != nil {
		h.tellRoom(who.Owner, err.Error()+"; no more room can be made now: end or remove something of what holds it")
	}
}
