package host

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// VolumeInfo is what is remembered of a volume.
type VolumeInfo struct {
	ID       string
	Worker   string
	State    string // creating, open, sealed or destroying
	Role     string // replica, of an artifact; input, output or cache, of a container
	Path     string // where its container mounts it; empty: it has none
	Owner    string // of its container; empty: it has none, or one that nobody owns any more
	Artifact string // whose content it has, by name; empty: none's, or one's without a name
	Bytes    int64  // 0: unknown
	Created  time.Time
}

// Volumes lists what is remembered of the volumes on a worker, or of all if it is empty, in the order in which they were made.
func (h *Host) Volumes(ctx context.Context, worker string) ([]VolumeInfo, error) {
	return volumesIn(ctx, h.store, worker)
}

// Volumes is Host.Volumes.
func (r *Records) Volumes(ctx context.Context, worker string) ([]VolumeInfo, error) {
	return volumesIn(ctx, r.store, worker)
}

func volumesIn(ctx context.Context, st *store.Store, worker string) ([]VolumeInfo, error) {
	var out []VolumeInfo
	err := st.View(ctx, func(tx *store.Tx) error {
		out = nil
		rows, err := tx.Volumes(store.VolumeFilter{Worker: worker})
		if err != nil {
			return err
		}
		for _, row := range rows {
			v := VolumeInfo{ID: row.ID, Worker: row.Worker, State: row.State, Role: row.Role, Path: row.Path, Bytes: row.Bytes, Created: row.CreatedAt}
			if row.Container != "" {
				c, err := tx.Container(row.Container)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				v.Owner = c.Owner
			}
			if row.Artifact != "" {
				a, err := tx.Artifact(row.Artifact)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				v.Artifact = a.Name
			}
			out = append(out, v)
		}
		return nil
	})
	return out, err
}

// Containers is Host.Containers and Host.Waiting. Nobody waits where there is no host.
func (r *Records) Containers(ctx context.Context, ownerPrefix string) ([]ContainerInfo, []*Explanation, error) {
	list, err := containersIn(ctx, r.store, ownerPrefix, nil)
	return list, nil, err
}

// Runs lists the runs that are remembered, the oldest first. None is told to be running: that only the host knows that runs it.
func (r *Records) Runs(ctx context.Context) ([]RunInfo, error) {
	rows, err := runsIn(ctx, r.store)
	out := make([]RunInfo, 0, len(rows))
	for _, row := range rows {
		out = append(out, runInfo(row))
	}
	return out, err
}

// RunByID gives one of them. One that is not remembered is sdk.NotFound.
func (r *Records) RunByID(ctx context.Context, id string) (RunInfo, error) {
	row, err := runIn(ctx, r.store, id)
	return runInfo(row), err
}

func runsIn(ctx context.Context, st *store.Store) (rows []store.Run, err error) {
	err = st.View(ctx, func(tx *store.Tx) (err error) {
		rows, err = tx.Runs(store.RunFilter{})
		return err
	})
	return rows, err
}

// ExplainRun explains where the steps of a run were placed, in the order in which they were, and what those wait for that are not yet. An
// unknown run has none.
func (h *Host) ExplainRun(ctx context.Context, run string) ([]*Explanation, error) {
	turns, waiting := h.turnWaits(), h.queue.Waiting() // first, and in this order: a step that goes on meanwhile is found where it is then
	out, err := placements(ctx, h.store, run)
	if err != nil {
		return nil, err
	}
	placed := make(map[string]bool)
	for _, e := range out {
		placed[e.Owner] = true
	}
	for _, w := range waiting {
		if placed[w.Owner] || !strings.HasPrefix(w.Owner, RunOwner(run, "")) {
			continue
		}
		e, err := h.ExplainOwner(ctx, w.Owner)
		if errors.Is(err, sdk.NotFound) {
			continue // it has given up
		}
		if err != nil {
			return nil, err
		}
		out, placed[w.Owner] = append(out, e), true
	}
	for _, w := range turns {
		if !placed[w.owner] && strings.HasPrefix(w.owner, RunOwner(run, "")) {
			out = append(out, w.explain())
		}
	}
	return out, nil
}
