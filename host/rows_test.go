package host

import (
	"context"

	"github.com/slipway-run/slipway/host/store"
)

// putContainer writes a row past the tables of package lifecycle, as a test needs it.
func (h *Host) putContainer(ctx context.Context, row store.Container) error {
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.PutContainer(row) })
}

// putVolume is putContainer of a volume.
func (h *Host) putVolume(ctx context.Context, row store.Volume) error {
	return h.store.Update(ctx, store.KillSafe, func(tx *store.Tx) error { return tx.PutVolume(row) })
}
