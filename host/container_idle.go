package host

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/reap"
	"github.com/slipway-run/slipway/host/store"
)

// A container whose owner is no run may be given a TTL. It is used whenever its owner finds it, as to start something there, and for as long as something runs in it; the
// time of the first is that of its row's last change. To wait for what ran there, or to read what that wrote, is no use of it.

// useEvery bounds how often it is noted that a container is used; of a short TTL it is a tenth.
const useEvery = time.Minute

// noteUse notes that somebody has asked for a container, so that its TTL begins anew. Where that cannot be noted the call goes on: what it starts keeps the container.
func (h *Host) noteUse(ctx context.Context, row store.Container, ttl time.Duration) {
	since := h.clock.wall().Sub(row.UpdatedAt)
	if ttl <= 0 || row.State != lifecycle.ContainerReady || since >= 0 && since < min(ttl/10, useEvery) {
		return
	}
	err := h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		_, err := h.moveContainer(tx, row.ID, lifecycle.Used, nil)
		return err
	})
	if err != nil && ctx.Err() == nil {
		h.log.Warn("it could not be noted that a container is used; it may go when its TTL has passed", "owner", row.Owner, "ttl", ttl, "error", err)
	}
}

// recordOf is what the reaper has to know of a container that is not over.
func (h *Host) recordOf(tx *store.Tx, c store.Container) (reap.ContainerRecord, error) {
	r := reap.ContainerRecord{ID: c.ID, Owner: c.Owner, Since: c.UpdatedAt, Busy: h.busy.has(c.ID), State: containerStates(c.State)}
	if r.State == reap.Over {
		return r, nil
	}
	var kept containerRecord
	if err := json.Unmarshal(c.Spec, &kept); err != nil {
		return r, fmt.Errorf("record of container %s: %w", c.ID, err)
	}
	r.Uses, r.Kept = kept.mounted(), kept.Kept
	if r.TTL = kept.TTL; r.TTL == 0 {
		r.Used = c.UpdatedAt
		return r, nil
	}
	processes, err := tx.Processes(store.ProcessFilter{Container: c.ID})
	r.Used, r.Running = lastUse(c, processes)
	r.Used = h.goes(r.Used.Add(r.TTL), r.TTL).Add(-r.TTL)
	return r, err
}

// lastUse is when a container that has a TTL was used last, and tells whether something runs in it, which uses it still.
func lastUse(c store.Container, processes []store.Process) (at time.Time, running bool) {
	at = c.UpdatedAt
	for _, p := range processes {
		running = running || p.State == lifecycle.ProcessStarting || p.State == lifecycle.ProcessRunning
		at = later(at, p.EndedAt)
	}
	return at, running
}

// expires is when a container goes by itself unless it is used before; zero: it does not, or something runs in it. Goes is Host.goes, or nil where
// there is no host that would take it away.
func expires(c store.Container, processes []store.Process, goes func(at time.Time, ttl time.Duration) time.Time) (time.Time, error) {
	var kept containerRecord
	if c.State != lifecycle.ContainerReady {
		return time.Time{}, nil
	}
	if err := json.Unmarshal(c.Spec, &kept); err != nil {
		return time.Time{}, fmt.Errorf("record of container %s: %w", c.ID, err)
	}
	at, running := lastUse(c, processes)
	if kept.TTL == 0 || running {
		return time.Time{}, nil
	}
	if at = at.Add(kept.TTL); goes != nil {
		at = goes(at, kept.TTL)
	}
	return at, nil
}
