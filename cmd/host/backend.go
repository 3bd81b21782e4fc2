package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/host/spool"
	"github.com/slipway-run/slipway/host/store"
)

// backend is what commands work on: a host in this process, or the daemon that has the state directory open.
type backend interface {
	plugins(ctx context.Context) ([]launch.Report, error)
	workers(ctx context.Context) ([]host.WorkerReport, error)
	artifacts
	reaper
	orderWorker(ctx context.Context, worker string, order api.Order, reason string) error
	awaitDrained(ctx context.Context, worker string, progress func(host.Drain)) error
	destroyContainer(ctx context.Context, owner string) error
	explainJob(ctx context.Context, j *job.Job, inputs map[string]string) (map[string]*host.Explanation, error)
	// run runs a job and tells what happens.
	run(ctx context.Context, req host.RunRequest, tell func(happening)) (*host.RunResult, error)
	// abort ends a run, under way or not, and tells what stays on workers.
	abort(ctx context.Context, id string) (*host.RunResult, map[string]host.Owed, error)
}

// happening is an event of a run, with what is to be shown of it.
type happening struct {
	host.Event
	open   func(ctx context.Context) (records, error) // with EventStarted: the step's output
	goesOn bool                                       // with EventFinished: its process does, on a worker that is away
}

// records is output to be read.
type records interface {
	Next(ctx context.Context) (spool.Record, error)
	Close() error
}

// withBackend runs f on the daemon that has the state directory open, or else on a host of its own. A daemon that is just starting or ending is waited for. A positive
// patience bounds the wait for plugins that have just been started.
func (a *app) withBackend(ctx context.Context, patience time.Duration, f func(backend) error) error {
	told := func() {}
	defer func() { told() }()
	var patient <-chan time.Time
	for {
		err := a.withHost(ctx, patience, func(h *host.Host) error {
			told()
			return f(&embedded{h: h, left: a.tellLeft})
		})
		locked, ok := errors.AsType[*store.LockedError](err)
		if !ok {
			return err
		}
		c, err := a.dial(ctx, answerTime)
		if err != nil {
			return err
		}
		if c != nil {
			told()
			return a.withDaemon(c, patience, f)
		}
		if !locked.Daemon { // another command, or program
			return locked
		}
		if patient == nil {
			patient = time.After(answerTime)
			told = sync.OnceFunc(a.whileSlow(func() string {
				return fmt.Sprintf("the daemon of %s, process %d, which is starting or ending", locked.Dir, locked.PID)
			}))
		}
		select {
		case <-time.After(lockPause):
		case <-patient:
			return locked
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lockPause is between two looks at a state directory whose daemon does not serve: nothing tells when a lock is free.
const lockPause = 50 * time.Millisecond

// withDaemon runs f on a daemon.
func (a *app) withDaemon(c *api.Client, patience time.Duration, f func(backend) error) error {
	defer c.Close()
	if a.configFile != "" {
		a.say(fmt.Sprintf("the daemon at %s has its own configuration: %s is not used", c.Address(), a.configFile))
	}
	return f(&daemon{c: c, patience: patience, whileSlow: a.whileSlow})
}

// answerTime is how long a daemon may take to say who it is: whoever waits then is told, and a busy machine has time.
const answerTime = 30 * time.Second

// dial reaches the daemon that has the state directory open; nil: there is none. One that accepts and says nothing is an error.
func (a *app) dial(ctx context.Context, patience time.Duration) (*api.Client, error) {
	address, err := api.Announced(a.stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := api.NewClient(address)
	if err != nil {
		return nil, err
	}
	ictx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("the daemon at %s has said nothing for %v: it hangs, or is stopped; see its log, or kill it and start another", address, patience))
	defer cancel()
	_, err = c.Info(ictx)
	if err == nil {
		return c, nil
	}
	c.Close()
	if ictx.Err() != nil {
		return nil, context.Cause(ictx)
	}
	if _, gone := errors.AsType[*api.GoneError](err); gone { // it ends, or an earlier one's address was left
		return nil, nil
	}
	return nil, err
}

// embedded is a host in this process.
type embedded struct {
	h    *host.Host
	left func(map[string]host.Owed) // is told what a run's host leaves on workers
}

func (e *embedded) plugins(context.Context) ([]launch.Report, error) { return e.h.Plugins(), nil }

// workers gives the workers. Where a plugin does not run its workers are away for the plugin's reason, not with when it is tried
// again: this host ends before.
func (e *embedded) workers(context.Context) ([]host.WorkerReport, error) { return reports(e.h), nil }

func (e *embedded) orderWorker(ctx context.Context, worker string, order api.Order, reason string) error {
	switch order {
	case api.Cordon:
		return e.h.CordonWorker(ctx, worker, reason)
	case api.Land:
		return e.h.LandWorker(ctx, worker, reason)
	case api.Retire:
		return e.h.RetireWorker(ctx, worker, reason)
	}
	return e.h.UncordonWorker(ctx, worker)
}

func (e *embedded) awaitDrained(ctx context.Context, worker string, progress func(host.Drain)) error {
	return e.h.AwaitDrained(ctx, worker, progress)
}

func (e *embedded) destroyContainer(ctx context.Context, owner string) error {
	return e.h.RemoveContainer(ctx, owner)
}

func (e *embedded) explainJob(ctx context.Context, j *job.Job, inputs map[string]string) (map[string]*host.Explanation, error) {
	artifacts := make(map[string]*host.Artifact)
	for name, artifact := range inputs {
		a, err := e.h.Artifact(ctx, artifact)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", name, err)
		}
		artifacts[name] = a
	}
	return e.h.ExplainJob(ctx, j, artifacts)
}

func (e *embedded) run(ctx context.Context, req host.RunRequest, tell func(happening)) (*host.RunResult, error) {
	if _, err := e.h.RunResult(ctx, req.ID); err != nil { // else it has ended, and needs nothing
		for name, a := range req.Artifacts {
			found, err := e.h.Artifact(ctx, a.Name)
			if err != nil {
				return nil, fmt.Errorf("input %q: %w", name, err)
			}
			*a = *found
		}
	}
	var mu sync.Mutex
	processes := make(map[string]*host.Process)
	req.Events = func(ev host.Event) {
		out := happening{Event: ev}
		mu.Lock()
		defer mu.Unlock()
		switch ev.Kind {
		case host.EventStarted:
			p := ev.Process
			processes[ev.Step] = p
			out.open = func(ctx context.Context) (records, error) { return p.Output(ctx, 0) }
		case host.EventFinished:
			if p := processes[ev.Step]; p != nil {
				select {
				case <-p.Done():
				default:
					out.goesOn = true
				}
			}
		}
		tell(out)
	}
	res, err := e.h.Run(ctx, req)
	if left := e.tidy(ctx, req.Kill); len(left) > 0 {
		e.left(left)
	}
	return res, err
}

func (e *embedded) abort(ctx context.Context, id string) (*host.RunResult, map[string]host.Owed, error) {
	res, err := e.h.AbortRun(ctx, id)
	return res, e.h.Owed(), err
}

// tidy has the host tidy up after this run and earlier ones, until somebody hurries. An interrupted run has waited for its workers already.
func (e *embedded) tidy(ctx context.Context, hurry <-chan struct{}) map[string]host.Owed {
	most := leftTime
	if ctx.Err() != nil {
		most = interruptedLeftTime
	}
	ctx, release := boundedBy(context.WithoutCancel(ctx), most, hurry, 0)
	defer release()
	return e.h.Tidy(ctx)
}

// leftTime is how long a command takes to tidy up after itself, and after earlier ones that were killed; interruptedLeftTime once it was interrupted.
const (
	leftTime            = 30 * time.Second
	interruptedLeftTime = 3 * time.Second
)

// daemon is a host in another process.
type daemon struct {
	c         *api.Client
	patience  time.Duration
	whileSlow func(what func() string) (done func())
}

// answer waits for an answer that tells nothing before it is whole.
func (d *daemon) answer() (done func()) {
	return d.whileSlow(func() string {
		return fmt.Sprintf("the daemon at %s; \"slipway workers\" says what its workers owe", d.c.Address())
	})
}

func (d *daemon) plugins(ctx context.Context) ([]launch.Report, error) {
	return d.c.Plugins(ctx, d.patience)
}

func (d *daemon) workers(ctx context.Context) ([]host.WorkerReport, error) {
	return d.c.Workers(ctx, d.patience)
}

func (d *daemon) orderWorker(ctx context.Context, worker string, order api.Order, reason string) error {
	return d.c.OrderWorker(ctx, worker, order, reason)
}

func (d *daemon) awaitDrained(ctx context.Context, worker string, progress func(host.Drain)) error {
	return d.c.AwaitDrained(ctx, worker, progress)
}

func (d *daemon) destroyContainer(ctx context.Context, owner string) error {
	defer d.answer()()
	return d.c.DestroyContainer(ctx, owner)
}

func (d *daemon) explainJob(ctx context.Context, j *job.Job, inputs map[string]string) (map[string]*host.Explanation, error) {
	return d.c.ExplainJob(ctx, j, inputs)
}

func (d *daemon) abort(ctx context.Context, id string) (*host.RunResult, map[string]host.Owed, error) {
	defer d.answer()()
	res, err := d.c.AbortRun(ctx, id, false)
	return res, nil, err // the daemon stays, and goes on
}

func (d *daemon) run(ctx context.Context, req host.RunRequest, tell func(happening)) (*host.RunResult, error) {
	return d.c.Run(ctx, api.RunRequest{RunRequest: req, Told: func(ev api.RunEvent) {
		out := happening{Event: ev.Event, goesOn: ev.GoesOn}
		if ev.Kind == host.EventStarted {
			out.open = func(ctx context.Context) (records, error) { return d.c.Output(ctx, ev.Owner, host.MainProcess, 0) }
		}
		tell(out)
	}})
}
