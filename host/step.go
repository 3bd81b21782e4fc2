package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// errTimeout is why a step is aborted when its timeout has passed.
type errTimeout struct{ after time.Duration }

func (e errTimeout) Error() string { return fmt.Sprintf("its timeout of %s has passed", e.after) }

// errInterrupted is why a step is aborted when the run's context has ended.
var errInterrupted = errors.New("the run was interrupted")

// step runs one step to its end. It always gives a result, and leaves nothing of the step's container behind unless the worker is
// away or the host closes.
func (r *run) step(ctx context.Context, s *job.Step) StepResult {
	res := StepResult{Step: s.Name}
	if err := r.awaitNeeds(ctx, s); err != nil {
		res.State, res.Err = StepSkipped, err
		return res
	}
	clock := time.Now()
	lap := func(d *time.Duration) {
		*d = time.Since(clock)
		clock = time.Now()
	}
	observe := func(e Event) {
		e.Step = s.Name
		if e.Kind == EventPlaced {
			res.Worker = e.Worker
			lap(&res.Queue)
		}
		r.tell(e)
	}
	req, err := r.request(ctx, s, observe)
	if err != nil {
		return r.failed(ctx, res, err)
	}
	c, err := r.h.Container(ctx, r.owner(s.Name), req)
	if err != nil {
		return r.failed(ctx, res, err)
	}
	res.Worker = c.Worker()
	p, err := c.Start(ctx, MainProcess, r.process(s))
	if err != nil {
		r.destroy(ctx, c)
		return r.failed(ctx, res, err)
	}
	lap(&res.Stream)
	p.OnPause(func(why error) {
		if why == nil {
			observe(Event{Kind: EventResumed, Worker: res.Worker})
			return
		}
		observe(Event{Kind: EventPaused, Worker: res.Worker, Message: why.Error()})
	})
	observe(Event{Kind: EventStarted, Worker: res.Worker, Process: p})
	outcome, why := r.await(ctx, c, p, s.Timeout)
	lap(&res.Run)
	if r.h.ctx.Err() != nil {
		return r.failed(ctx, res, outcome.Err)
	}
	res.Exit, res.Err = outcome.Exit, cmp.Or(why, outcome.Err)
	if outcome.Exit != nil {
		observe(Event{Kind: EventExited, Worker: res.Worker, Exit: outcome.Exit})
	}
	if why != nil || outcome.Err != nil { // not ended by itself: what it leaves is no output
		r.destroy(ctx, c)
		return r.failed(ctx, res, res.Err)
	}
	outputs, err := c.Seal(ctx)
	if err != nil {
		r.destroy(ctx, c)
		return r.failed(ctx, res, err)
	}
	r.mu.Lock()
	for name, a := range outputs {
		r.artifacts[job.Ref{Step: s.Name, Output: name}] = a
	}
	r.mu.Unlock()
	res.State = StepSucceeded
	if outcome.Exit.Code != 0 {
		res.State = StepFailed
	}
	return res
}

// awaitNeeds waits for the steps that must have succeeded, and names the first that has not.
func (r *run) awaitNeeds(ctx context.Context, s *job.Step) error {
	for _, need := range r.req.Job.Needs(s) {
		select {
		case <-r.done[need]:
		case <-ctx.Done():
			return errInterrupted
		}
		r.mu.Lock()
		state := r.results[need].State
		r.mu.Unlock()
		if state != StepSucceeded {
			return fmt.Errorf("step %s, which it needs, %s", need, verb(state))
		}
	}
	return nil
}

func verb(s StepState) string {
	switch s {
	case StepFailed:
		return "failed"
	case StepLost, StepAborted, StepSkipped:
		return "was " + string(s)
	case StepTimedOut:
		return "timed out"
	}
	return "could not run"
}

// request translates a step into what its container needs.
func (r *run) request(ctx context.Context, s *job.Step, observe func(Event)) (ContainerRequest, error) {
	req := ContainerRequest{
		Team: s.Team, Runtime: s.Runtime, Platform: s.Platform, Tags: s.Tags, Kind: pool.Build,
		ImageRef: s.ImageRef, Dir: s.Dir, Privileged: s.Privileged, Hermetic: s.Hermetic,
		Limits: sdk.Resources{CPUMillis: s.Limits.CPUMillis, MemoryBytes: s.Limits.MemoryBytes, DiskBytes: s.Limits.DiskBytes,
			PIDs: s.Limits.PIDs},
		Observe: observe,
	}
	if len(s.Inputs) == 0 {
		req.Kind = pool.NoInput
	}
	if s.User != "" {
		req.Features = append(req.Features, sdk.FeatureUsers)
	}
	for _, path := range slices.Sorted(maps.Keys(s.Inputs)) {
		a, err := r.artifact(ctx, s.Inputs[path])
		if err != nil {
			return req, err
		}
		req.Inputs = append(req.Inputs, Input{Artifact: a, Path: path})
	}
	for _, name := range s.Outputs {
		req.Outputs = append(req.Outputs, Output{Name: name, Path: name})
	}
	if s.Image != nil {
		a, err := r.artifact(ctx, *s.Image)
		if err != nil {
			return req, err
		}
		req.Image = a
	}
	return req, nil
}

func (r *run) process(s *job.Step) ProcessRequest {
	req := ProcessRequest{Path: s.Run.Path, Args: s.Run.Args, User: s.User}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		req.Env = append(req.Env, name+"="+s.Env[name])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	req.Stdin, r.stdin = r.stdin, nil
	return req
}

// await waits for the process, and aborts it when its timeout passes or the run is interrupted; why is then the reason. A
// timeout counts from when this host saw the process start.
func (r *run) await(ctx context.Context, c *Container, p *Process, timeout time.Duration) (_ Outcome, why error) {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-p.Done():
	case <-expired:
		why = errTimeout{timeout}
	case <-ctx.Done():
		why = errInterrupted
	}
	if why != nil {
		r.abort(ctx, c, p, why)
	}
	// Abort has waited for as long as it may: a process that is still followed then is on a worker that is away.
	select {
	case <-p.Done():
		outcome, err := p.Wait(context.WithoutCancel(ctx))
		return outcome, cmp.Or(why, err)
	default:
		return Outcome{Err: why}, why
	}
}

func (r *run) abort(ctx context.Context, c *Container, p *Process, why error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.req.Grace+cleanupTime)
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
	if err := p.Abort(ctx, hurry, c, why, r.req.Grace); err != nil {
		r.h.log.Warn("aborting a step left something behind", "owner", c.owner, "error", err)
	}
}

func (r *run) destroy(ctx context.Context, c *Container) {
	if r.h.ctx.Err() != nil {
		return // the step goes on when the run is resumed
	}
	ctx, cancel := r.h.cleanup(ctx)
	defer cancel()
	if err := c.Destroy(ctx); err != nil {
		r.h.log.Warn("a step's container stays until its worker is back", "owner", c.owner, "error", err)
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
	case errors.Is(err, errInterrupted), ctx.Err() != nil:
		res.State, res.Err = StepAborted, errInterrupted
	case errors.As(err, &lost):
		res.State = StepLost
	case errors.As(err, &aborted):
		res.State = StepAborted
	default:
		res.State = StepErrored
	}
	return res
}

// Summary says in one line how a step ended.
func (s StepResult) Summary() string {
	switch {
	case s.State == StepFailed && s.Exit.Signal != "":
		return fmt.Sprintf("failed: ended by signal %s", s.Exit.Signal)
	case s.State == StepFailed:
		return fmt.Sprintf("failed: exit code %d", s.Exit.Code)
	case s.Err != nil:
		return fmt.Sprintf("%s: %s", s.State, strings.TrimSpace(s.Err.Error()))
	}
	return string(s.State)
}
