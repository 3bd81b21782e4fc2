package host

import (
	"context"
	"errors"
	"fmt"
)

// How a step ends: its outputs are taken, or it did not come to an end of its own.

// ErrRunAborted is the cause with which whoever runs a job ends its context when somebody has asked for the run to be aborted: its steps then tell that, and
// not that it was interrupted.
var ErrRunAborted = errors.New("the run was aborted")

// errInterrupted is why a step is aborted when the run's context has ended for another reason.
var errInterrupted = errors.New("the run was interrupted")

// endedBy is why the run's context has ended. Who has what runs killed does not wait for its end any more, and so aborts it.
func (r *run) endedBy(ctx context.Context) error { return r.req.endedBy(ctx) }

func (r *RunRequest) endedBy(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrRunAborted) {
		return ErrRunAborted
	}
	select {
	case <-r.Kill: // never, where it is nil
		return ErrRunAborted
	default:
		return errInterrupted
	}
}

// notBegun is the error of a run that came to none of its steps here: where that is only since it was ended meanwhile it says by whom.
func (r *RunRequest) notBegun(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("run %s has not begun here: %w", r.ID, r.endedBy(ctx))
}

// seal takes the outputs of a step that has ended, and its caches if it has succeeded.
func (r *run) seal(ctx context.Context, c *Container, succeeded bool, observe func(Event)) (outputs map[string]*Artifact, err error) {
	saved := !succeeded
	err = r.ending(ctx, c, observe, func() (err error) {
		if !saved {
			err := c.SaveCaches(ctx)
			if lacksRoom(err) || FilesExhausted(err) {
				return err // sealing would destroy them
			}
			if err != nil { // the step has done what it was to do
				r.h.log.Warn("caches of a step were not kept", "owner", c.owner, "error", err)
			}
			saved = true
		}
		outputs, err = c.Seal(ctx)
		return err
	})
	return outputs, err
}

// keepFailed keeps the container of a step whose command has failed. One that is over by now, with its worker perhaps, cannot be kept, which changes nothing of
// how the command has ended.
func (r *run) keepFailed(ctx context.Context, c *Container, observe func(Event)) error {
	err := r.ending(ctx, c, observe, func() error { return c.keepFailed(ctx) })
	if !tooLate(err) {
		return err
	}
	r.h.log.Warn("the container of a step that failed cannot be kept for people to look at: it is over", "owner", c.owner, "worker", c.worker.name, "error", err)
	r.destroy(ctx, c) // what it has left
	return nil
}

// ending does what is left to do for a step whose command has ended. That may have taken hours, so a full disk is waited for.
func (r *run) ending(ctx context.Context, c *Container, observe func(Event), do func() error) error {
	return r.storing(ctx, c.Worker(), whileSealing, observe, do)
}

// storing does something again for as long as the full disk refuses it, and has it told that it waits for room, and that it goes on.
func (r *run) storing(ctx context.Context, worker, meanwhile string, observe func(Event), do func() error) error {
	waited := false
	err := r.untilRoom(ctx, meanwhile, func(why error) {
		waited = true
		observe(pauseEvent(worker, why))
	}, do)
	if waited && !lacksRoom(err) {
		observe(pauseEvent(worker, nil))
	}
	return err
}

// untilRoom is untilStored for a step. It ends with the host as well, which the context of a run does not.
func (r *run) untilRoom(ctx context.Context, meanwhile string, waits func(error), do func() error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(r.h.ctx, stop)()
	return untilStored(ctx, r.h.dir, meanwhile, waits, do)
}

func (r *run) abort(ctx context.Context, c *Container, p *Process, why error) error {
	ctx, cancel := r.h.undoing(ctx, r.req.Grace+cleanupTime)
	defer cancel()
	hurry, stop := context.WithCancel(ctx)
	defer stop()
	if r.req.Kill != nil {
		watched := make(chan struct{})
		defer func() { <-watched }()
		defer stop()
		go func() {
			defer close(watched)
			select {
			case <-r.req.Kill:
				stop()
			case <-hurry.Done():
			}
		}()
	}
	err := p.Abort(ctx, hurry, c, why, r.req.Grace)
	if err != nil && !errors.Is(err, ErrEnded) {
		r.h.log.Warn("aborting a step left something behind", "owner", c.owner, "error", err)
	}
	return err
}

func (r *run) destroy(ctx context.Context, c *Container) {
	if r.h.ctx.Err() != nil {
		return // the step goes on when the run is resumed
	}
	ctx, cancel := r.h.cleanup(ctx)
	defer cancel()
	if err := c.Destroy(ctx); err != nil {
		r.h.log.Warn("a step's container stays for now; it is destroyed at the latest when its run ends and its worker is there", "owner", c.owner, "error", err)
	}
}

// failed gives the result of a step that did not come to an end of its own.
func (r *run) failed(ctx context.Context, res StepResult, err error) StepResult {
	var lost *LostError
	var aborted *AbortedError
	res.Err = err
	switch {
	case errors.As(err, new(errTimeout)):
		res.State = StepTimedOut
	case errors.Is(err, errInterrupted), errors.Is(err, ErrRunAborted), ctx.Err() != nil:
		res.State, res.Err = StepAborted, r.endedBy(ctx)
	case errors.As(err, &lost):
		res.State = StepLost
	case errors.As(err, &aborted) && aborted.Timeout > 0: // by an earlier host, or by this one before the run was resumed
		res.State, res.Err = StepTimedOut, errTimeout{aborted.Timeout}
	case errors.As(err, &aborted):
		res.State = StepAborted
	default:
		res.State = StepErrored
	}
	return res
}
