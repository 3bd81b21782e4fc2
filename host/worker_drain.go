package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
)

// Drain is what a landing or retiring worker still waits for.
type Drain struct {
	Containers []string        // their owners
	Volumes    int             // that are being written or destroyed
	Artifacts  []DrainArtifact // that are needed, and nowhere else yet
	Moved      int             // artifacts that were copied to other workers, since the host or the drain began
	MovedBytes int64
}

// DrainArtifact is an artifact that has to be copied to another worker.
type DrainArtifact struct {
	Name   string
	Bytes  int64  // unpacked; 0: unknown
	Copied int64  // bytes that were sent so far, packed as they may be
	Why    string // it is not there yet; empty: it is being copied, or will be

	id string
}

// Done tells whether the worker waits for nothing more.
func (d Drain) Done() bool { return len(d.Containers) == 0 && d.Volumes == 0 && len(d.Artifacts) == 0 }

// String tells people what it waits for.
func (d Drain) String() string {
	var parts []string
	if n := len(d.Containers); n > 0 {
		parts = append(parts, fmt.Sprintf("the end of %s", list(d.Containers)))
	}
	var names []string
	for _, a := range d.Artifacts {
		if a.Why != "" {
			parts = append(parts, fmt.Sprintf("artifact %s to be copied (%s)", a.Name, a.Why))
			continue
		}
		if a.Copied > 0 {
			a.Name = fmt.Sprintf("%s (%d MiB so far)", a.Name, a.Copied>>20)
		}
		names = append(names, a.Name)
	}
	if len(names) > 0 {
		parts = append(parts, "the copying of "+list(names))
	}
	if d.Volumes > 0 {
		parts = append(parts, fmt.Sprintf("%d volumes that are being written or destroyed", d.Volumes))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", and for ")
}

// fewNames is how many names people are told at once.
const fewNames = 5

// list names a few.
func list(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// drainEvery is how often a drain looks again.
const drainEvery = time.Second

// drain is the emptying of one worker, a goroutine of its own: a worker that hangs holds up no other.
type drain struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (d *drain) stop() {
	d.cancel()
	<-d.done
}

// startDrain empties the worker if its orders say so. The worker's ordering is held.
func (h *Host) startDrain(w *worker) error {
	if s := w.ordered().state; s != pool.Landing && s != pool.Retiring {
		return nil
	}
	ctx, cancel := context.WithCancel(h.ctx)
	d := &drain{cancel: cancel, done: make(chan struct{})}
	err := h.spawn(func() {
		defer close(d.done)
		defer cancel()
		h.drain(ctx, w)
	})
	if err != nil {
		cancel()
		return err
	}
	w.drain = d
	return nil
}

func (h *Host) drain(ctx context.Context, w *worker) {
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	m := newMover(h, w)
	defer m.copies.Wait()
	for {
		done, err := h.drainOnce(ctx, w, m)
		if done || ctx.Err() != nil {
			return
		}
		if err != nil {
			h.log.Warn("a worker cannot be emptied yet", "worker", w.name, "error", err)
		}
		select {
		case <-tick.C:
		case <-m.moved:
		case <-ctx.Done():
			return
		}
	}
}

// drainOnce sees to it that what can be moved is, tells what is waited for, and ends the drain if nothing is left.
func (h *Host) drainOnce(ctx context.Context, w *worker, m *mover) (done bool, err error) {
	left, moves, kept, err := h.stillThere(ctx, w)
	if err != nil {
		return false, err
	}
	if len(kept) > 0 && w.ordered().state == pool.Retiring {
		for _, row := range kept {
			err = errors.Join(err, h.giveUpKept(ctx, row))
		}
		if err != nil {
			return false, err
		}
		if left, moves, _, err = h.stillThere(ctx, w); err != nil {
			return false, err
		}
	}
	m.move(ctx, moves)
	m.describe(&left)
	w.tellDrain(left)
	if !left.Done() || m.busy() {
		return false, nil
	}
	return h.endDrain(ctx, w)
}

// giveUpKept destroys a container that people could look at, and what is in it.
func (h *Host) giveUpKept(ctx context.Context, row store.Container) error {
	if err := h.destroyContainer(ctx, row.ID, doom{volumes: true}); err != nil {
		return fmt.Errorf("container of %s, which has failed: %w", row.Owner, err)
	}
	return nil
}

// endDrain says that the worker is empty, and tells whether it is. What is left on one that retires goes first.
func (h *Host) endDrain(ctx context.Context, w *worker) (bool, error) {
	o := w.ordered()
	next := orders{pool.Landed, o.reason}
	switch o.state {
	case pool.Landing:
	case pool.Retiring:
		next.state = pool.Retired
		if empty, err := h.clearWorker(ctx, w); err != nil || !empty {
			return false, err
		}
	default: // nobody wants it to be empty any more
		return true, nil
	}
	if err := h.putOrders(ctx, w.name, next); err != nil {
		return false, err
	}
	w.obey(next)
	h.tellPlacement(w)
	return true, nil
}

// clearWorker destroys the volumes of a worker on which nothing runs, and tells whether it did: not if something is being made there, or has
// become the last of its content, since the drain looked. Of a worker that is gone the records go.
func (h *Host) clearWorker(ctx context.Context, w *worker) (bool, error) {
	if w.isGone() {
		return true, h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
			return errors.Join(h.loseContainers(tx, w.name, "worker "+w.name+" is gone, and was retired"), h.loseVolumes(tx, w.name))
		})
	}
	if len(h.index.Leases(w.name)) > 0 { // it has come back from elsewhere meanwhile
		return false, nil
	}
	var rows []store.Volume
	needed := false
	err := h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) (err error) {
		needed = false
		if rows, err = tx.Volumes(store.VolumeFilter{Worker: w.name}); err != nil {
			return err
		}
		for _, v := range rows {
			if needed = v.State != lifecycle.VolumeSealed; !needed && v.Artifact != "" {
				_, needed, err = h.onlyThere(tx, v)
			}
			if err != nil || needed {
				return err
			}
		}
		for _, v := range rows {
			if _, err := h.moveVolume(tx, v.ID, lifecycle.Doomed, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || needed {
		return false, err
	}
	err = h.awaitGone(ctx, w.name, destroyPatience, things(rows)...)
	return err == nil, err
}

// isGone tells whether nothing can be moved from the worker any more: it has been away for as long as the host waits for it, or its name leads to another place and it was given up.
func (w *worker) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn == nil && (w.givenUp || !w.elsewhere && time.Since(w.since) >= w.graces.Load().gone)
}

func (w *worker) tellDrain(d Drain) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waits = &d
}

// AwaitDrained waits until a landing or retiring worker is empty, and calls progress with what it waits for, now and each time that this
// changes. It fails if the worker is given other orders meanwhile.
func (h *Host) AwaitDrained(ctx context.Context, name string, progress func(Drain)) error {
	tick := time.NewTicker(drainEvery / 4)
	defer tick.Stop()
	told := ""
	for {
		w, err := h.knownWorker(name)
		if err != nil {
			return err
		}
		switch r := w.report(); r.State {
		case pool.Landed, pool.Retired:
			return nil
		case pool.Landing, pool.Retiring:
			if r.Drain != nil && r.Drain.String() != told && progress != nil {
				told = r.Drain.String()
				progress(*r.Drain)
			}
		default:
			return fmt.Errorf("worker %s is %s: somebody has given it other orders", name, r.State)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.ctx.Done():
			return ErrClosed
		}
	}
}
