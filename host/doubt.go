package host

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// doubts are the replicas that could not be read when they were needed, by the volume's id. Every other source is asked before one of them.
// A replica that its worker said is not there is missing: its worker is looked at at once, and until a look lists it, work on that worker
// gets another replica. A doubt destroys nothing, and no record either: that a volume is lost is believed after the grace and a second look,
// as of any other thing that a worker does not list.
type doubts struct {
	mu    sync.Mutex
	last  int // number of the newest doubt
	by    map[string]doubt
	looks map[string]bool // workers that are about to be looked at, by name
}

type doubt struct {
	number  int // tells a doubt from an earlier one of the same replica
	worker  string
	missing bool
}

// note adds a doubt, and tells whether a look at the worker has to be begun for it.
func (d *doubts) note(worker, id string, missing bool) (look bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.by == nil {
		d.by, d.looks = make(map[string]doubt), make(map[string]bool)
	}
	d.last++
	d.by[id] = doubt{number: d.last, worker: worker, missing: missing || d.by[id].missing}
	if !missing || d.looks[worker] {
		return false
	}
	d.looks[worker] = true
	return true
}

// lookBegins says that what is noted from now on needs another look at the worker.
func (d *doubts) lookBegins(worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.looks, worker)
}

// has tells whether a replica is in doubt.
func (d *doubts) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, in := d.by[id]
	return in
}

// missing tells whether a replica's worker said that it is not there.
func (d *doubts) missing(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.by[id].missing
}

// on gives the doubts about replicas of a worker as they are now.
func (d *doubts) on(worker string) map[string]doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := maps.Clone(d.by)
	maps.DeleteFunc(out, func(_ string, of doubt) bool { return of.worker != worker })
	return out
}

// settle ends those of the doubts, taken before a look, that the look has answered: the missing replica is listed, or is recorded no more.
func (d *doubts) settle(before map[string]doubt, look *reap.Snapshot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, was := range before {
		_, listed := look.Listed[volumeThing(id)]
		recorded := slices.ContainsFunc(look.Volumes, func(v reap.VolumeRecord) bool { return v.ID == id && v.Sealed })
		if d.by[id] == was && (was.missing && listed || !recorded) {
			delete(d.by, id)
		}
	}
}

// doubtReplica notes that a replica could not be read, and has its worker looked at where the worker said that it is not there. What is no
// replica any more is not noted.
func (h *Host) doubtReplica(ctx context.Context, w *worker, id string, why error) {
	row, err := h.volume(ctx, id)
	if err != nil || row.State != lifecycle.VolumeSealed {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			h.log.Warn("it is not noted that a replica could not be read", "volume", id, "worker", w.name, "error", err)
		}
		return
	}
	missing := isMissing(why, id)
	h.log.Warn("a replica could not be read, and is passed over", "volume", id, "worker", w.name, "missing", missing, "error", why)
	if h.doubts.note(w.name, id, missing) {
		h.lookSoon(w)
	}
}

// isMissing tells whether an error says that a volume is not on its worker.
func isMissing(err error, id string) bool {
	e, ok := errors.AsType[*sdk.Error](err)
	return ok && sdk.IsNotFound(e, sdk.KindVolume) && e.ID == id
}

// lookSoon has a worker looked at once its turn is free. Nothing is destroyed for that: the grace of what is missing begins with this look,
// and whoever looks after it decides.
func (h *Host) lookSoon(w *worker) {
	err := h.spawn(func() {
		r := h.reconciler(w.name)
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }()
		case <-h.ctx.Done():
			return
		}
		h.doubts.lookBegins(w.name)
		if _, err := h.reapWorker(h.ctx, w, r, true); err != nil && h.ctx.Err() == nil {
			h.log.Warn("a worker could not be looked at for a replica that it did not know", "worker", w.name, "error", err)
		}
	})
	if err != nil { // the host closes
		h.doubts.lookBegins(w.name)
	}
}
