package host

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/store"
)

// roomTick is how often the host looks whether the disk of its state directory is full.
const roomTick = 10 * time.Second

// roomLog tells once that a full disk begins, and once that it ends.
type roomLog struct {
	mu   sync.Mutex
	full bool
}

// Room tells whether the state directory can take new work, and how much room there is for it.
func (h *Host) Room(ctx context.Context) store.Room {
	room := h.store.Room(ctx)
	h.roomLog.mu.Lock()
	defer h.roomLog.mu.Unlock()
	switch was := h.roomLog.full; {
	case room.Full != nil && !was:
		h.log.Warn("the disk of the state directory is full: nothing new is taken until there is room; what runs goes on, and what is to be destroyed is",
			"dir", h.dir, "free_bytes", room.Free, "error", room.Full)
	case room.Full == nil && was:
		h.log.Info("the disk of the state directory has room again: new work is taken", "dir", h.dir, "free_bytes", room.Free)
	}
	h.roomLog.full = room.Full != nil
	return room
}

// watchRoom has it told that the disk is full though nobody asks.
func (h *Host) watchRoom() {
	for {
		h.Room(h.ctx)
		select {
		case <-h.clock.after(roomTick):
		case <-h.ctx.Done():
			return
		}
	}
}
