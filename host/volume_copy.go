package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// What a full worker alone has is copied away before it goes: to the host's disk, within the quota of what is uploaded, else to another worker that has room. Runs that each
// hold what they still need would wait for each other's room for ever otherwise. The copy is made beside whoever looks for room, who finds the replica spare once it is there. A
// host that ends in the middle leaves a file without a row, which the next one removes.

// rooms is what is known of the room that is being made for volumes.
type rooms struct {
	mu       sync.Mutex
	under    map[string]bool         // artifacts that are being copied
	failures map[string]*copyFailure // of artifacts that could not be copied
	keep     map[string]bool         // artifacts whose copies on the host's disk somebody's room depends on
	again    time.Time               // when to look for room again; zero: when something changes
	waiting  map[string]*roomWait    // who is told what holds the room, by owner
}

// copyFailure is why something could not be copied away, and when that is tried again.
type copyFailure struct {
	err   error
	until time.Time
	next  backoff
}

// maxCopyPause is how long a copy that fails is left alone at most.
const maxCopyPause = 5 * time.Minute

// copying tells whether an artifact is being copied away.
func (r *rooms) copying(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.under[id]
}

// pauses tells whether an artifact could not be copied away, and it is too early to try again.
func (r *rooms) pauses(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.failures[id]
	return f != nil && time.Now().Before(f.until)
}

// failed is why an artifact could not be copied away when it was tried last, also while it is tried anew; nil: no such thing is known.
func (r *rooms) failed(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.failures[id]; f != nil {
		return f.err
	}
	return nil
}

// begin notes that an artifact is being copied, unless it is or as many are as may.
func (r *rooms) begin(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under[id] || len(r.under) >= movesAtOnce {
		return false
	}
	if r.under == nil {
		r.under, r.failures = make(map[string]bool), make(map[string]*copyFailure)
	}
	r.under[id] = true
	return true
}

func (r *rooms) end(id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.under, id)
	if err == nil {
		delete(r.failures, id)
		return
	}
	f := r.failures[id]
	if f == nil {
		f = new(copyFailure)
		r.failures[id] = f
	}
	f.err, f.until = err, time.Now().Add(f.next.within(maxCopyPause, err))
}

// passed notes what was found when all who wait for room were looked at.
func (r *rooms) passed(keep map[string]bool, again time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep, r.again = keep, again
}

// kept tells whether somebody's room depends on the host's copy of an artifact.
func (r *rooms) kept(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keep[id]
}

// nextLook is when to look for room though nothing has changed; the zero time means that nothing is due. Failures that are long over are forgotten.
func (r *rooms) nextLook() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, now := r.again, time.Now()
	for id, f := range r.failures {
		if !f.until.After(now) {
			if now.Sub(f.until) > maxCopyPause {
				delete(r.failures, id)
			}
			continue
		}
		if at.IsZero() || f.until.Before(at) {
			at = f.until
		}
	}
	return at
}

// roomOnDisk has everything tried again that could not be copied because the host's disk had no room: it may have some now.
func (h *Host) roomOnDisk() {
	r := &h.rooms
	r.mu.Lock()
	tried := false
	for _, f := range r.failures {
		if errors.Is(f.err, sdk.ReasonStorage) || errors.Is(f.err, sdk.ReasonTooLarge) {
			f.until, f.next, tried = time.Now(), backoff{}, true
		}
	}
	r.mu.Unlock()
	if tried {
		h.queue.Nudge()
	}
}

// copyAway begins to copy everything that has to be somewhere else before it can go from a worker. While one caller waits for these copies, later callers do not begin them
// again.
func (p *roomPass) copyAway(who pool.Waiter, worker string, chosen []candidate, wants map[string]bool) {
	p.take(worker, slices.Clone(chosen))
	var names []string
	for _, c := range chosen {
		p.keep[c.artifact.ID] = true
		if !c.copyFirst(wants[c.row.Artifact]) {
			continue
		}
		names = append(names, c.artifact.Name)
		if !c.copying && p.h.rooms.begin(c.artifact.ID) {
			c := c
			if err := p.h.spawn(func() { p.h.copyOff(c, p.short) }); err != nil { // no goroutine is begun any more, because the host closes
				p.h.rooms.end(c.artifact.ID, err)
			}
		}
	}
	p.h.tellRoom(who.Owner, fmt.Sprintf("room for it is being made on worker %s: %s copied away from there, as nothing else has what is in it", worker, isOrAre(names)))
}

func isOrAre(names []string) string {
	if len(names) == 1 {
		return names[0] + " is being"
	}
	return list(names) + " are being"
}

// copyOff copies the content of a replica to somewhere else, but not to a worker that is itself short of room. Afterwards it has room looked for again.
func (h *Host) copyOff(c candidate, short map[string]bool) {
	a := &Artifact{ID: c.artifact.ID, Name: c.artifact.Name}
	where, err := hostSource, h.keepOnDisk(h.ctx, a, c.row.Bytes)
	if sdk.IsNotFound(err, KindArtifact) { // it was removed meanwhile
		where, err = "nowhere", nil
	}
	if err != nil && h.ctx.Err() == nil {
		onDisk := err
		if where, err = h.keepOnWorker(h.ctx, a, c.row.Worker, short); err != nil {
			err = fmt.Errorf("%w; %w", onDisk, err)
		}
	}
	h.rooms.end(a.ID, err)
	switch {
	case where == "nowhere":
	case err == nil:
		h.log.Info("copied what a full worker alone has, to make room there", "artifact", a.Name, "worker", c.row.Worker, "to", where)
	case h.ctx.Err() == nil:
		h.log.Warn("what a full worker alone has could not be copied to make room there", "artifact", a.Name, "worker", c.row.Worker, "error", err)
	}
	h.queue.Nudge()
}

// keepOnDisk copies an artifact from a worker to the host's disk. If it returns no error, the copy is there, and outlives a loss of power.
func (h *Host) keepOnDisk(ctx context.Context, a *Artifact, about int64) error {
	defer h.using(a.ID)()
	if err := h.blobs.mayHold(about, func(want int64) { h.evictBlobs(ctx, want) }); err != nil {
		return err
	}
	sources, err := h.sources(ctx, a)
	if err != nil {
		return err
	}
	nearest(sources, WorkerReport{})
	// A directory of this machine may have changed since a worker has read it.
	sources = slices.DeleteFunc(sources, func(s source) bool { return s.worker == nil })
	if len(sources) == 0 {
		return sdk.NewNotFound(KindArtifact, a.Name)
	}
	var sum string
	var n int64
	err = h.fromAny(ctx, sources, func(src source) (ofSource bool, err error) {
		sum, n, err = h.blobs.fill(ctx, a.ID, func(want int64) { h.evictBlobs(ctx, want) }, func(ctx context.Context, w io.Writer) error {
			return readFrom(ctx, a, src, &counter{w: w, idle: h.cfg().Timing.WorkerGone}, func(ctx context.Context, src source, w io.Writer) error { return src.read(ctx, w) })
		})
		if err != nil {
			return true, fmt.Errorf("copy %s from %s: %w", a.Name, src.name, err)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	// While this is locked nobody else changes whether the artifact's row names a blob, so the file that was just filled cannot take the place of another.
	unlock, err := h.blobs.names.Lock(ctx, a.ID)
	if err != nil {
		return errors.Join(err, h.blobs.drop(a.ID, n))
	}
	defer unlock()
	var row store.Artifact
	err = h.store.View(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Artifact(a.ID)
		return noArtifact(a.Name, err)
	})
	if err == nil && row.Blob == "" {
		err = h.blobs.place(a.ID)
	}
	if err != nil || row.Blob != "" {
		return errors.Join(err, h.blobs.drop(a.ID, n))
	}
	h.fault("blob-copied")
	err = h.store.Update(context.WithoutCancel(ctx), store.PowerSafe, func(tx *store.Tx) error {
		row, err := tx.Artifact(a.ID)
		if err != nil {
			return noArtifact(a.Name, err)
		}
		row.Blob, row.Bytes = sum, n
		return tx.PutArtifact(row)
	})
	if sdk.IsNotFound(err, KindArtifact) { // it was removed meanwhile, perhaps before the file was there
		return errors.Join(err, h.blobs.remove(a.ID))
	}
	if err != nil {
		return err // the row may name the file by now; the next host finds out, and removes it if not
	}
	h.fault("blob-kept")
	return nil
}

// keepOnWorker copies an artifact to another worker where it is at least as sure to stay, and where nobody waits for room, and names that.
func (h *Host) keepOnWorker(ctx context.Context, a *Artifact, from string, short map[string]bool) (string, error) {
	var team string
	err := h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.Artifact(a.ID)
		if err != nil {
			return err
		}
		team, err = teamOf(tx, row)
		return err
	})
	if err != nil {
		return "", err
	}
	for _, p := range h.index.Workers() {
		if short[p.Name] || !takesIn(p, from, team) || !h.keepsAsWell(p.Name, from) || !h.queue.HasRoom(p.Name, a.ID) {
			continue
		}
		w, err := h.worker(p.Name)
		if err != nil {
			continue // the worker has just gone away
		}
		_, err = h.replicate(ctx, a, w, nil)
		return p.Name, err
	}
	return "", errors.New("and no other worker has room for it")
}
