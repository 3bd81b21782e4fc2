package host

import (
	"context"
	"errors"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// evictBlobs gives up blobs whose content a worker keeps for good, the longest unused first, until there is so much room.
func (h *Host) evictBlobs(ctx context.Context, want int64) {
	var rows []store.Artifact
	err := h.store.View(ctx, func(tx *store.Tx) (err error) {
		rows, err = tx.Artifacts(store.ArtifactFilter{Blobs: true})
		return err
	})
	sortByUse(rows)
	for _, row := range rows {
		if err != nil || want <= 0 {
			break
		}
		var gone bool
		if gone, err = h.evictBlob(ctx, row.ID); gone {
			want -= row.Bytes
		}
	}
	if err != nil {
		h.log.Warn("making room for an artifact failed", "error", err)
	}
}

// evictBlob removes a blob unless somebody reads it, or it may be the last of its content that stays or is about to be, and tells whether it did.
func (h *Host) evictBlob(ctx context.Context, id string) (bool, error) {
	unlock, err := h.blobs.names.Lock(ctx, id)
	if err != nil {
		return false, err
	}
	defer unlock()
	var sum string
	err = h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		sum = ""
		row, err := tx.Artifact(id)
		if err != nil {
			return ignoreNotFound(err)
		}
		kept, err := h.keptElsewhere(tx, id)
		if err != nil || !kept || h.beingRead(id) || h.rooms.kept(id) {
			return err
		}
		sum, row.Blob = row.Blob, ""
		return h.putArtifact(tx, row)
	})
	if err != nil || sum == "" {
		return false, err
	}
	// Whoever looked the blob up before that has noted by now that he reads; who looks after it finds the other places.
	if !h.beingRead(id) {
		return true, h.blobs.remove(id)
	}
	removed := false
	err = h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Artifact(id)
		if errors.Is(err, store.ErrNotFound) {
			removed = true
			return nil
		}
		if err != nil {
			return err
		}
		row.Blob = sum
		return h.putArtifact(tx, row)
	})
	if removed { // as a whole, meanwhile
		return true, h.blobs.remove(id)
	}
	return false, err
}

// keptElsewhere tells whether a worker that stays has an artifact's content.
func (h *Host) keptElsewhere(tx *store.Tx, id string) (bool, error) {
	volumes, err := tx.Volumes(store.VolumeFilter{Artifact: id, States: []string{lifecycle.VolumeSealed}})
	for _, v := range volumes {
		if h.keeps(v.Worker) && !h.doubts.has(v.ID) {
			return true, nil
		}
	}
	return false, err
}

// keeps tells whether what is on a worker stays: also when its plugin is restarted, and until an operator empties the worker.
func (h *Host) keeps(worker string) bool {
	w, err := h.worker(worker)
	if err != nil || w.passing() {
		return false
	}
	r := w.report()
	return r.Up && !r.Status.Has(sdk.FeatureVolatile) && (r.State == pool.Running || r.State == pool.Cordoned)
}
