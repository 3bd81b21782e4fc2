package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Seal ends the container and makes its outputs artifacts, by name. It is for a container whose work has ended by itself, with whatever exit: while a process of it is starting or runs,
// and where one was lost or aborted, it changes nothing and is FailedPrecondition with [ReasonUnended], which names that process. In a container of a run only the step's own process counts;
// others are killed, so that nothing writes any more. Where nothing was ever started, the outputs are what they were made as: empty, or copies of inputs.
// Idempotent, also across restarts. A container that cannot be destroyed, an output that is not on its worker
// any more or is not sealed, a worker that is gone: each is a *LostError, and the work has to be done again. What else the container had is destroyed, which is not waited for; nor
// is it that a container without outputs is, for long.
func (c *Container) Seal(ctx context.Context) (map[string]*Artifact, error) {
	out := make(map[string]*Artifact, len(c.record.Outputs))
	if len(c.record.Outputs) == 0 { // all that it was for is known
		err := c.destroy(ctx, doom{volumes: true, ended: true})
		if errors.Is(err, ReasonUnended) {
			return nil, err
		}
		if err != nil {
			c.h.log.Warn("a container whose work has ended stays until its worker has destroyed it", "owner", c.owner, "worker", c.worker.name, "error", err)
		}
		return out, nil
	}
	if err := c.destroyOnly(ctx); errors.Is(err, ReasonUnended) {
		return nil, err
	} else if err != nil {
		return nil, c.outputLost(ctx, "outputs", err)
	}
	for name, id := range c.record.Outputs {
		a, err := c.sealOutput(ctx, name, id)
		if err != nil {
			return nil, c.outputLost(ctx, "output "+name, err)
		}
		out[name] = a
	}
	return out, c.h.store.Release(context.WithoutCancel(ctx), store.KillSafe, func(tx *store.Tx) error {
		_, err := c.h.doomVolumes(tx, string(c.id))
		return err
	})
}

// ReasonUnended is why a container is not sealed, and its caches are not saved: a process of it has not ended, or was lost or aborted.
const ReasonUnended sdk.Reason = "unended"

// workEnded tells whether what a container leaves may be kept (see [Container.Seal]). Who is to end the container asks in the same transaction: nothing is started in it after that.
func workEnded(tx *store.Tx, id string) error {
	container, err := tx.Container(id)
	if err != nil { // forgotten, with all that ran in it
		return ignoreNotFound(err)
	}
	rows, err := tx.Processes(store.ProcessFilter{Container: id})
	if err != nil {
		return err
	}
	for _, row := range rows {
		name, problem := row.ID[len(id)+1:], ""
		switch {
		case RunOf(container.Owner) != "" && name != MainProcess:
		case row.State == lifecycle.ProcessLost:
			problem = fmt.Sprintf("was lost (%s), so what it has left may be half written: destroy the container, and do its work again in a new one", row.Reason)
		case row.State == lifecycle.ProcessAborted || row.Reason != "": // an exit that comes of an abort is none of its own
			problem = fmt.Sprintf("was aborted (%s), so what it has left may be half written: destroy the container, and do its work again in a new one", row.Reason)
		case row.State == lifecycle.ProcessStarting:
			problem = "may have been started, which is not known yet: start it again under the same name, wait for its end, then seal the container"
		case row.State == lifecycle.ProcessRunning:
			problem = "still runs: wait for its end, after a signal if it does not end by itself, then seal the container"
		}
		if problem != "" {
			return sdk.NewFailedPrecondition(ReasonUnended, sdk.KindProcess, name, "the container of %s cannot be sealed: its process %s %s", container.Owner, name, problem)
		}
	}
	return nil
}

// OutputName is the name of the artifact that an owner's output becomes.
func OutputName(owner, output string) string { return owner + "/" + output }

func (c *Container) sealOutput(ctx context.Context, name, id string) (*Artifact, error) {
	row, err := c.h.volume(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Artifact != "" && row.State != lifecycle.VolumeSealed { // it was an artifact already, perhaps, and is elsewhere now
		if kept, errKept := c.h.keptOutput(ctx, OutputName(c.owner, name)); kept != nil || errKept != nil {
			return kept, errKept
		}
	}
	if err != nil {
		return nil, err
	}
	a, err := c.h.findOrAddArtifact(ctx, OutputName(c.owner, name), c.owner, "")
	if err != nil {
		return nil, err
	}
	if row.Artifact == a.ID && row.State == lifecycle.VolumeSealed {
		return a, nil
	}
	if err := c.h.sealPatiently(ctx, row); err != nil {
		return nil, err
	}
	c.h.fault("output-sealed")
	bytes := c.h.sizeOf(ctx, row)
	// It is sealed: an interrupt while it was measured changes nothing of that.
	err = c.h.store.Update(context.WithoutCancel(ctx), store.KillSafe, func(tx *store.Tx) error {
		_, err := c.h.keepVolume(tx, row, a.ID, bytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.h.fault("output-registered")
	return a, nil
}

// outputLost makes of why outputs cannot be had that the work has to be done again, unless it is this host that could not go on: then it is the error itself.
func (c *Container) outputLost(ctx context.Context, what string, err error) error {
	_, answered := errors.AsType[*sdk.Error](err)
	_, gone := errors.AsType[*WorkerGoneError](err)
	if ctx.Err() != nil || c.h.ctx.Err() != nil || !answered && !gone && !tooLate(err) && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s of %s: %w", what, c.owner, err)
	}
	return &LostError{Owner: c.owner, Worker: c.worker.name, Reason: fmt.Sprintf("its %s cannot be had any more: %v", what, err)}
}

// sealPatiently seals what a step has made, which may have taken hours: a worker that fails, or has no room, is asked again for as long as one that is away would
// be waited for. One that refuses is not.
func (h *Host) sealPatiently(ctx context.Context, row store.Volume) error {
	began, told := time.Now(), false
	var b backoff
	for {
		err := h.sealVolume(ctx, row)
		again := errors.Is(err, sdk.Internal) || errors.Is(err, sdk.Exhausted)
		if !again || ctx.Err() != nil || h.ctx.Err() != nil || time.Since(began) >= h.cfg().Timing.WorkerGone {
			return err
		}
		if !told {
			told = true
			defer announce(ctx, row.Worker, fmt.Errorf("it is asked again to seal a volume: %w", err))()
		}
		if waited := b.wait(ctx, err); waited != nil {
			return errors.Join(err, waited)
		}
	}
}

// keptOutput finds the artifact that an output became, where its content is still kept anywhere; nil: there is none.
func (h *Host) keptOutput(ctx context.Context, name string) (a *Artifact, err error) {
	err = h.store.View(ctx, func(tx *store.Tx) error {
		row, err := tx.ArtifactByName(name)
		if err != nil {
			return ignoreNotFound(err)
		}
		whole, err := hasContent(tx, row)
		if whole {
			a = &Artifact{ID: row.ID, Name: row.Name}
		}
		return err
	})
	return a, err
}

// measureTime is how long a worker may take to tell how big a volume is, which only placement and people are told.
const measureTime = 5 * time.Second

// sizeOf asks the worker how big a volume is; 0 where it cannot tell, or not soon.
func (h *Host) sizeOf(ctx context.Context, row store.Volume) int64 {
	w, err := h.worker(row.Worker)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	var bytes int64
	err = w.call(ctx, "list volumes", func(ctx context.Context, c sdk.Worker) error {
		return c.ListVolumes(ctx, sdk.Filter{ID: row.ID}, func(i sdk.VolumeInfo) error {
			bytes = max(i.Bytes, 0)
			return nil
		})
	})
	if err != nil {
		return 0
	}
	return bytes
}
