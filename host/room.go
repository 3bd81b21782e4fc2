package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/host/store"
)

// roomTick is how often the host looks whether the disk of its state directory is full.
const roomTick = 10 * time.Second

// roomLog tells once that a full disk begins, and once that it ends.
type roomLog struct {
	turns atomic.Int64 // of those who measure

	mu   sync.Mutex
	full bool
	told int64 // the turn of who has told it
}

// Room tells whether the state directory can take new work, and how much room there is for it.
func (h *Host) Room(ctx context.Context) store.Room {
	turn := h.roomLog.turns.Add(1)
	room := h.store.Room(ctx)
	h.roomLog.mu.Lock()
	defer h.roomLog.mu.Unlock()
	if turn < h.roomLog.told { // somebody has measured after this, and was quicker
		return room
	}
	h.roomLog.told = turn
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

// lacksRoom tells whether something failed because the disk of the state directory is full, or the share of it that this user may have.
func lacksRoom(err error) bool {
	return errors.Is(err, store.ErrFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// What a full disk means for work that has begun, until there is room again.
const (
	whileBeginning = "the step has not begun, and what its run has made so far is kept"
	whileRunning   = "the command is not lost: what it writes is kept on its worker, as much as that holds, and comes once there is room"
	whileSealing   = "the command has ended and nothing is lost: what it made stays on its worker, and is taken once there is room"
	whileKeeping   = "the step has ended and nothing is lost: what it came to is told once that can be kept"
	whileEnding    = "all steps of the run have ended and nothing is lost: what they made is delivered, and the run ends, once there is room"
)

// noRoomError says why work that has begun does not go on, what that means for it, and what to do. It is for people who watch the work.
type noRoomError struct {
	dir       string // the state directory
	meanwhile string // what becomes of the work until there is room
	err       error
}

func (e *noRoomError) Error() string {
	why := e.err.Error()
	if errors.Is(e.err, store.ErrFull) { // whose words are for what is given up, and say the same
		why = "nothing new can be written into its database"
	}
	return fmt.Sprintf("the disk of the state directory %s is full: make room on it, and this goes on by itself; %s (%s)", absolute(e.dir), e.meanwhile, why)
}

func (e *noRoomError) Unwrap() error { return e.err }

// pausedBy is the reason why following a process pauses, as it is told to people: what failed on this machine alone says so.
func (h *Host) pausedBy(err error) error {
	var local localError
	switch {
	case !errors.As(err, &local):
		return err
	case lacksRoom(err):
		return &noRoomError{h.dir, whileRunning, err}
	}
	return fmt.Errorf("its output cannot be kept on this machine, which is tried again; the command is not lost: %w", err)
}
