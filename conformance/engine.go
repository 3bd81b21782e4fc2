package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Execute runs the cases against a target and reports each result as it comes, never two at once; report may be nil. An error
// means that the target could not be opened or that the options are wrong; then nothing was run. When ctx ends, what has not
// begun is skipped, and what has is cleaned up; so it is when the run's time is up.
func Execute(ctx context.Context, target Target, opts Options, report func(Result)) (Summary, error) {
	s, err := openSuite(ctx, target, opts)
	if err != nil {
		return Summary{}, err
	}
	runCtx, cancel := s.budget(ctx)
	defer cancel()
	cases := s.opts.Cases
	results := make([]Result, len(cases))
	var mu sync.Mutex
	run := func(i int) {
		if s.opts.Begun != nil && s.opts.Chosen(cases[i]) {
			mu.Lock()
			s.opts.Begun(cases[i])
			mu.Unlock()
		}
		r := s.run(runCtx, cases[i])
		mu.Lock()
		defer mu.Unlock()
		results[i] = r
		if report != nil {
			report(r)
		}
	}

	var wg sync.WaitGroup
	free := make(chan struct{}, s.opts.Parallel)
	for i, c := range cases {
		if c.Exclusive {
			continue
		}
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			run(i)
		})
	}
	wg.Wait()
	for i, c := range cases {
		if c.Exclusive {
			run(i)
		}
	}
	last := s.run(runCtx, NothingLeft())
	if report != nil {
		report(last)
	}
	sum := s.summary(append(results, last))
	return sum, s.close(ctx)
}

// errBudget is why a run ends before its last case.
var errBudget = errors.New("the run's time was up")

// budget bounds a run as the user wishes.
func (s *suite) budget(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.opts.Budget <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, s.started.Add(s.opts.Budget), errBudget)
}

// interrupted tells why a run has ended early.
func interrupted(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), errBudget) {
		return errBudget.Error()
	}
	return "the run was interrupted"
}

func newResult(kase Case) Result {
	return Result{ID: kase.ID, Title: kase.Title, Profile: kase.Profile, Level: kase.Level, Promises: kase.Promises, Started: time.Now()}
}

// run gives what came of a case, all its repetitions taken together.
func (s *suite) run(ctx context.Context, kase Case) Result {
	r := newResult(kase)
	if r.Status, r.Note = s.prejudge(ctx, kase); r.Status != "" {
		return r
	}
	defer s.life.began(kase)()
	for r.Runs < max(1, kase.Repeat) && (r.Status == "" || r.Status == Pass) {
		r.Runs++
		s.attempt(ctx, kase, r.Runs, &r)
	}
	r.Seconds = time.Since(r.Started).Seconds()
	s.expect(&r)
	return r
}

// prejudge tells why a case is not run; an empty status: it is.
func (s *suite) prejudge(ctx context.Context, kase Case) (Status, string) {
	if kase.ID != nothingLeftID {
		if why := s.opts.deselected(kase); why != "" {
			return Skipped, why
		}
	}
	if ctx.Err() != nil {
		return Skipped, interrupted(ctx)
	}
	if !kase.Exclusive && !slices.Contains(kase.Env, EnvProgram) {
		if how := s.over(ctx); how != "" {
			return Skipped, "the plugin had ended, " + how
		}
	}
	for _, f := range kase.Needs {
		if !s.status.Has(f) {
			return Unsupported, fmt.Sprintf("the worker does not name %q", f)
		}
	}
	if slices.Contains(kase.Env, EnvCrash) && !s.target.CanCrash {
		return EnvMissing, "the target's plugin cannot be killed and restarted"
	}
	if slices.Contains(kase.Env, EnvProgram) && s.target.Program == nil {
		return EnvMissing, "the target is no plugin's program"
	}
	if slices.Contains(kase.Env, EnvLocal) && !s.target.Local {
		return EnvMissing, "the plugin does not run on this machine"
	}
	if slices.Contains(kase.Env, EnvImageRef) && (s.target.Given.ImageRef == "" || s.target.Given.ImageFile == "") {
		return EnvMissing, "no image that the worker's runtime has was named, with a file of it"
	}
	if slices.Contains(kase.Env, EnvImport) && s.target.Given.Import == "" {
		return EnvMissing, "no path on the worker that may be imported was named"
	}
	probe, own := s.target.probe()
	if slices.Contains(kase.Env, EnvProbe) && !own || slices.Contains(kase.Env, EnvProbeLinux) && !own {
		return EnvMissing, "the suite's own program, the probe, was not given"
	}
	if slices.Contains(kase.Env, EnvProbeLinux) && probe.wasm {
		return EnvMissing, "the suite's probe is built for WASI, not for Linux"
	}
	if slices.Contains(kase.Env, EnvBare) && !s.target.Bare && !own {
		return EnvMissing, "its containers hold no shell: give the suite's own program, the probe"
	}
	return "", ""
}

// expect weighs a result against what the user expects.
func (s *suite) expect(r *Result) {
	e, ok := s.opts.expectation(r.ID)
	if !ok {
		return
	}
	switch {
	case r.Status == Pass:
		r.Status = Fail
		r.Failures = append(r.Failures, Failure{
			What: "it passes, but was expected to fail: " + e.Reason,
			Why:  "an expectation that outlives its reason hides the next failure; take it away",
		})
	case r.Status == Fail && !s.opts.Now().Before(e.Until):
		r.Note = fmt.Sprintf("expected to fail until %s, which is over: %s", e.Until.Format(time.DateOnly), e.Reason)
	case r.Status == Fail:
		r.Status = ExpectedFailure
		r.Note = fmt.Sprintf("expected until %s: %s", e.Until.Format(time.DateOnly), e.Reason)
	}
}

// attempt runs a case once, cleans up behind it, and puts what came of it into r. The number makes its ids its own.
func (s *suite) attempt(ctx context.Context, kase Case, number int, r *Result) {
	c := s.newC(kase, number)
	limit := kase.Timeout
	if limit == 0 {
		limit = DefaultTimeout
	}
	limit = s.scaled(limit)
	caseCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.ctx = caseCtx

	done := make(chan struct{})
	var timedOut bool
	go func() {
		defer close(done)
		defer func() {
			timedOut = caseCtx.Err() == context.DeadlineExceeded && ctx.Err() == nil // else it is the run whose time is up
			cancel()
			c.wg.Wait()
		}()
		defer c.recover()
		kase.Run(caseCtx, c)
	}()
	hung := !wait(caseCtx, done, s.opts.HangGrace)
	if hung {
		c.timeUp("a context bounds the call: a host that waits longer hangs with it",
			"a call had not returned %v after its context had ended; the case was given up", s.opts.HangGrace)
	} else if timedOut {
		c.timeUp("the case could not be done in its time", "the case took longer than %v; on a busy machine give it more by --time-scale (in Go Options.TimeScale)", limit)
	}
	s.cleanUp(ctx, c)

	failures, log, status, note := c.close()
	r.Failures, r.Log = failures, log
	switch {
	case len(failures) > 0 && ctx.Err() != nil && !hung: // a call that does not end with its context has failed in any case
		r.Status, r.Note = Skipped, interrupted(ctx)+" while it ran: "+failures[0].What
	case status == Error:
		r.Status, r.Note = Error, note
	case len(failures) > 0:
		r.Status = Fail
	case status != "":
		r.Status, r.Note = status, note
	default:
		r.Status = Pass
	}
}

// wait waits for done, but for no longer than grace after the end of ctx.
func wait(ctx context.Context, done <-chan struct{}, grace time.Duration) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// cleanUp destroys what the case left, in a time of its own even when the run was interrupted.
func (s *suite) cleanUp(ctx context.Context, c *C) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.CleanupTimeout)
	defer cancel()
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer c.recover()
		done <- c.tracker.destroyAll(ctx)
		for _, f := range c.takeCleanups() {
			f()
		}
	}()
	if !wait(ctx, ended, s.opts.HangGrace) {
		c.violation("2a", "a context bounds the call: a host that waits longer hangs with it",
			"cleaning up had not returned %v after its context had ended", s.opts.HangGrace)
		return
	}
	select {
	case err := <-done:
		if err != nil {
			c.violation("1e", "destroying must succeed, whatever state the thing is in: nothing else frees the worker", "cleaning up: %v", err)
		}
	default: // it panicked, which is noted
	}
}

func (s *suite) newC(kase Case, attempt int) *C {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", kase.ID, attempt)
	c := &C{
		Status: s.status, Commands: s.target.Commands, Short: s.opts.Short,
		Rand:  rand.New(rand.NewPCG(s.opts.Seed, h.Sum64())),
		suite: s, kase: kase, main: s.main,
		prefix: fmt.Sprintf("%s%s-%s-%d", idPrefix, s.id, short(kase.ID), attempt),
	}
	c.W = guard{c: c, on: s.main}
	if s.target.byProbe(kase) {
		p, _ := s.target.probe()
		c.Commands = caseProbe{p, c}
	}
	return c
}

// short is the part of a case's id before its words, as it may stand in an id of the contract.
func short(id string) string {
	head, _, _ := strings.Cut(id, "-")
	head = strings.ToLower(head)
	if len(head) > 12 || sdk.CheckID(sdk.KindVolume, head) != nil {
		return "x"
	}
	return head
}
