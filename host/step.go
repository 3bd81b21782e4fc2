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

// step runs one step to its end: again on another worker each time that it is lost, as often as the job lets it. It always gives a result.
func (r *run) step(ctx context.Context, s *job.Step) StepResult {
	if err := r.awaitNeeds(ctx, s); err != nil {
		return StepResult{Step: s.Name, State: StepSkipped, Err: err}
	}
	done, err := r.turn(ctx, s)
	if err != nil {
		return StepResult{Step: s.Name, State: StepAborted, Err: r.endedBy(ctx)}
	}
	defer done()
	lostOn := make(map[string]string)
	var before StepResult
	for n := 1; ; n++ {
		res := r.attempt(ctx, s, n, lostOn)
		res.Attempts = n
		if none, ok := errors.AsType[*pool.NoWorkerError](res.Err); ok && n > 1 { // what it came to is that it was lost
			before.Err, before.repeated = fmt.Errorf("%w; it is not tried again: %w", before.Err, none), true
			return before
		}
		if res.State != StepLost || n >= s.Attempts || r.hasRead(s.Name) || ctx.Err() != nil || r.h.ctx.Err() != nil {
			return res
		}
		told := n <= r.lost[s.Name]
		if !told {
			r.keepStep(ctx, res, true)
		}
		r.tell(Event{Step: s.Name, Kind: EventAgain, Worker: res.Worker, Message: res.Err.Error(), Result: new(res), Repeated: told})
		lostOn[res.Worker] = fmt.Sprintf("attempt %d was lost there", n)
		before = res
	}
}

// AttemptOwner is the owner of the container of a step's n-th attempt, from 1; that of the first is [RunOwner].
func AttemptOwner(run, step string, n int) string {
	if n <= 1 {
		return RunOwner(run, step)
	}
	return fmt.Sprintf("%s/%d", RunOwner(run, step), n)
}

// hasRead tells whether a step was given the client's stdin, which nobody can repeat.
func (r *run) hasRead(step string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fed == step
}

// attempt runs a step once, on none of the workers that lost it. It leaves nothing of the step's container behind unless the worker is
// away or the host closes. A full disk is waited for wherever it is met: what has begun by then stays, and goes on.
func (r *run) attempt(ctx context.Context, s *job.Step, n int, lostOn map[string]string) (res StepResult) {
	res.Step = s.Name
	ctx, span := stepSpan(ctx, r.id, s.Name, n)
	defer func() { endStepSpan(span, res) }()
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
		tellSpan(span, e)
		r.tell(e)
	}
	ctx = onSilence(ctx, func(worker string, why error) { observe(pauseEvent(worker, why)) }, func(worker, what string) { observe(slowEvent(worker, what)) })
	var c *Container
	var p *Process
	err := r.untilRoom(ctx, whileBeginning, func(why error) { observe(pauseEvent("", why)) }, func() error {
		found, started, err := r.begin(ctx, s, n, lostOn, observe)
		c, p = cmp.Or(found, c), started // the next time may not come as far as this one
		return err
	})
	if c != nil {
		res.Worker = c.Worker()
	}
	if err != nil {
		if c != nil {
			r.destroy(ctx, c)
		}
		return r.failed(ctx, res, err)
	}
	lap(&res.Stream)
	p.OnPause(func(why error) { observe(pauseEvent(c.Worker(), why)) })
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
	if why != nil { // its container is destroyed, or owed that
		return r.failed(ctx, res, res.Err)
	}
	if outcome.Err != nil { // not ended by itself: what it leaves is no output
		r.destroy(ctx, c)
		return r.failed(ctx, res, res.Err)
	}
	if outcome.Exit.Code != 0 && r.h.settings.keepFailed.Load() {
		if err := r.keepFailed(ctx, c, observe); err != nil {
			r.destroy(ctx, c)
			return r.failed(ctx, res, err)
		}
		res.State = StepFailed
		return res
	}
	outputs, err := r.seal(ctx, c, outcome.Exit.Code == 0, observe)
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

// begin has a step's container made, and its process started, or finds what it has begun before of that: the container is nil if there is none.
func (r *run) begin(ctx context.Context, s *job.Step, n int, lostOn map[string]string, observe func(Event)) (c *Container, p *Process, err error) {
	req, err := r.request(ctx, s, observe)
	if err != nil {
		return nil, nil, err
	}
	req.Exclude = lostOn
	if c, err = r.h.Container(ctx, AttemptOwner(r.id, s.Name, n), req); err != nil {
		return nil, nil, err
	}
	p, err = c.Start(ctx, MainProcess, r.process(s))
	return c, p, err
}

// awaitNeeds waits for the steps that must have succeeded, and names the first that has not.
func (r *run) awaitNeeds(ctx context.Context, s *job.Step) error {
	for _, need := range r.req.Job.Needs(s) {
		select {
		case <-r.done[need]:
		case <-ctx.Done():
			return r.endedBy(ctx)
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

// stepRequest is what a step's container needs, but for what goes in and comes out.
func stepRequest(s *job.Step) ContainerRequest {
	req := ContainerRequest{
		Team: s.Team, Runtime: s.Runtime, Platform: s.Platform, Tags: s.Tags, Kind: pool.Build,
		ImageRef: s.ImageRef, User: s.User, Dir: s.Dir, Privileged: s.Privileged, Hermetic: s.Hermetic,
		Limits: sdk.Resources{CPUMillis: s.Limits.CPUMillis, MemoryBytes: s.Limits.MemoryBytes, DiskBytes: s.Limits.DiskBytes,
			PIDs: s.Limits.PIDs},
		Resources: pool.Resources(s.Resources), Priority: s.Priority,
	}
	if len(s.Inputs) == 0 {
		req.Kind = pool.NoInput
	}
	if s.User != "" {
		req.Features = append(req.Features, sdk.FeatureUsers)
	}
	return req
}

// request translates a step into what its container needs.
func (r *run) request(ctx context.Context, s *job.Step, observe func(Event)) (ContainerRequest, error) {
	req := stepRequest(s)
	req.Observe = observe
	for _, path := range slices.Sorted(maps.Keys(s.Inputs)) {
		a, err := r.artifact(ctx, s.Inputs[path])
		if err != nil {
			return req, err
		}
		req.Inputs = append(req.Inputs, Input{Artifact: a, Path: path})
	}
	for _, path := range slices.Sorted(maps.Keys(s.Shared)) {
		a, err := r.artifact(ctx, s.Shared[path])
		if err != nil {
			return req, err
		}
		req.Shared = append(req.Shared, Input{Artifact: a, Path: path})
	}
	for _, name := range s.Outputs {
		req.Outputs = append(req.Outputs, Output{Name: name, Path: name})
	}
	for _, path := range s.Caches {
		key := TaskCacheKey(s.Team, cmp.Or(r.req.CacheScope, r.req.Job.Name), s.Name, path)
		req.Caches = append(req.Caches, Cache{Key: key, Path: path, TTL: s.CacheTTL})
	}
	if s.With != "" {
		r.mu.Lock()
		req.With = AttemptOwner(r.id, s.With, r.results[s.With].Attempts)
		r.mu.Unlock()
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
	req := ProcessRequest{Path: s.Run.Path, Args: s.Run.Args, User: s.User, timeout: s.Timeout}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		req.Env = append(req.Env, name+"="+s.Env[name])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stdin != nil && (r.fed == "" || r.fed == s.Name) { // a start that waits for room has read nothing of it
		req.Stdin, r.fed = r.stdin, s.Name
	}
	return req
}

// await waits for the process, and aborts it when its timeout passes or the run is interrupted; why is then the reason, and its container
// was destroyed as far as its worker let that be done in time. A timeout counts from when a host first saw the process start: of one that an earlier
// host has started, what is left of it.
func (r *run) await(ctx context.Context, c *Container, p *Process, timeout time.Duration) (_ Outcome, why error) {
	var expired <-chan time.Time
	var passed <-chan struct{}
	switch {
	case p.deadline != nil:
		timeout, passed = p.deadline.timeout, p.deadline.passed
		p.deadline.driven.Store(true)
	case timeout > 0:
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-p.Done():
		if p.deadline != nil { // before the run was resumed, this host may have told it to end
			row, err := r.h.processRow(context.WithoutCancel(ctx), p.id)
			if err != nil {
				return Outcome{Err: err}, nil
			}
			if row.TimedOut {
				why = errTimeout{timeout}
			}
		}
	case <-expired:
		why = errTimeout{timeout}
	case <-passed:
		why = errTimeout{timeout}
	case <-ctx.Done():
		why = r.endedBy(ctx)
	}
	if why != nil && errors.Is(r.abort(ctx, c, p, why), ErrEnded) { // its end is stored and counts; following it ends soon
		ctx, cancel := r.h.cleanup(ctx)
		defer cancel()
		if _, err := p.Wait(ctx); err == nil {
			why = nil
		} else {
			r.destroy(ctx, c)
		}
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
