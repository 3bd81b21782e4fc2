package garden

import (
	"context"
	"errors"

	"github.com/slipway-run/slipway/plugins/garden/internal/claim"
	"github.com/slipway-run/slipway/sdk"
)

// A server goes on listing a container whose first process has died, and with it all others. Guardian, Concourse's containerd backend and Garden's own API say
// nothing of it but that they refuse to run commands there, in words alone; and a container that is full of processes refuses as well. So the plugin looks from
// beside: a container of its own, with the same scratch volume, sees whether the keeper still holds its lock there. Each container has a keeper from before
// it is ready.

// over tells whether all that ran in a container has ended, though the server lists it. Once found out, that stays so.
func (w *worker) over(id sdk.ContainerID) bool { return w.marked(w.dead, id) }

// hasEnded finds out whether a container that refused a command is over. Where that cannot be found out now the answer is no.
func (w *worker) hasEnded(ctx context.Context, id sdk.ContainerID) bool {
	unlock, err := w.locks.Lock(ctx, "ended "+string(id)) // no id has a space
	if err != nil {
		return false
	}
	defer unlock()
	if w.over(id) {
		return true
	}
	w.suspect(id, true) // until something is certain a list asks again
	v, there, err := w.store.Lookup(ctx, slipwayVolume(id))
	if err != nil || !there {
		return false
	}
	ended, err := w.keeperEnded(ctx, v)
	if err != nil {
		w.log.Debug("cannot tell whether a container has ended", "container", id, "error", err)
	}
	if !ended {
		return false
	}
	w.mark(w.dead, id, true)
	w.forget(id)
	w.suspect(id, false)
	w.log.Info("a container has ended, and the server lists it still", "container", id)
	return true
}

// keeperEnded tells whether the keeper of a container has died, and so all that ran there, from beside: v is the container's volume with the shim.
func (w *worker) keeperEnded(ctx context.Context, v claim.Volume) (bool, error) {
	a, err := w.able(ctx)
	if err != nil {
		return false, err
	}
	err = w.withBare(ctx, bare{strict: a.strict, privileged: v.Privileged, beside: v}, func(handle string) error {
		return w.keeperLives(ctx, sdk.ContainerID(handle))
	})
	if errors.Is(err, sdk.ReasonDead) { // that is the answer where the keeper is dead
		return true, nil
	}
	return false, err
}

// keeperLives asks the keeper whose scratch volume a container has.
func (w *worker) keeperLives(ctx context.Context, id sdk.ContainerID) error {
	w.mark(w.making, id, true)
	defer w.mark(w.making, id, false)
	defer w.rest(ctx, id)
	_, err := w.Ready(ctx, id)
	return err
}

// suspect notes that a container may have ended, or that it has not.
func (w *worker) suspect(id sdk.ContainerID, on bool) { w.mark(w.suspects, id, on) }

// check runs a command in a container that may have ended; if it has, over tells so afterwards.
func (w *worker) check(ctx context.Context, id sdk.ContainerID) error {
	if !w.marked(w.suspects, id) {
		return nil
	}
	_, err := w.Ready(ctx, id)
	if err == nil || errors.Is(err, sdk.ReasonDead) { // commands run there, even if the keeper has died
		w.suspect(id, false)
	}
	return ctx.Err()
}

// goneFrom says why a container is gone.
func (w *worker) goneFrom(id sdk.ContainerID) string {
	if w.over(id) {
		return w.garden.String() + " lists it, and nothing runs in it any more: its first process has died"
	}
	return w.garden.String() + " does not know it any more"
}
