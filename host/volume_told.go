package host

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/host/pool"
)

// Here those who wait for room for volumes are told what becomes of it.

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
func (h *Host) tellNoRoom(ctx context.Context, who pool.Waiter) error {
	h.rooms.mu.Lock()
	w := h.rooms.waiting[who.Owner]
	due := w != nil && (w.at.IsZero() || time.Since(w.at) >= tellRoomEvery)
	if due {
		w.at = time.Now()
	}
	h.rooms.mu.Unlock()
	if !due {
		return nil
	}
	_, why, err := h.explainWait(ctx, who, who.Team())
	if why != nil {
		h.tellRoom(who.Owner, why.Error()+"; no more room can be made now: end or remove something of what holds it")
	}
	return err
}
