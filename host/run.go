package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// DefaultGrace is how long an aborted step may take to end by itself.
const DefaultGrace = 10 * time.Second

// RunRequest says what job to run.
type RunRequest struct {
	// ID names the run, by 1 to 128 of letters, digits and "._:@#-", the first a letter or digit; empty: one is made. The same id on the same state directory resumes that run, if the job is the same.
	ID      string
	Job     *job.Job
	Inputs  map[string]string // a directory by the name of each of the job's inputs
	Outputs map[string]string // a target directory by the name of an output; those without one are not kept
	Force   bool              // replace targets that are not empty
	// Placed are the outputs that are in their targets already, since the run was begun before: these need not be empty, and are left as they are
	// unless Force is set. Run finds by itself what it has put there.
	Placed map[string]bool

	// Artifacts are the inputs that are artifacts already, by their names; Inputs has the others. Those that belong to the run, by an
	// owner that begins as [RunOwner] does, go with it.
	Artifacts map[string]*Artifact
	// Brought are the inputs that somebody has brought for this run alone, by their names: artifacts of nobody's, which are the run's from its
	// beginning on, whatever their time, and go with it. A run that was begun before goes on with those that it has; of these it
	// takes what it lacks.
	Brought map[string]*Artifact
	// Deliver takes the outputs in place of writing them to their targets, which then are a caller's own names for where they go. It may
	// take as long as it wants; once it has returned nil the output may go. Nil: they are written.
	Deliver func(ctx context.Context, output string, a *Artifact, target string) error

	// CacheScope is what runs have in common that share the caches of their steps. Empty: the job's name.
	CacheScope string

	Stdin io.Reader // for the first step that starts; meant for jobs of one step
	Grace time.Duration
	// Parallel is how many steps of the run go side by side at most. Zero: as many as are ready, and as this host lets go.
	Parallel int
	// Kill, once closed, ends what is left of the grace of an abort, and a second later all waiting for what is undone: that stays owed where it has not come to an end.
	// Nil: nobody hurries.
	Kill <-chan struct{}
	// Events is told what happens, from many goroutines; it must not block for long. Nil: nobody is.
	Events func(Event)
}

// StepState is how a step ended.
type StepState string

// The ways in which a step ends.
const (
	StepSucceeded StepState = "succeeded"
	StepFailed    StepState = "failed"    // its command exited with another code than 0
	StepLost      StepState = "lost"      // it was started, and nobody can tell how it ended
	StepAborted   StepState = "aborted"   // somebody asked for it
	StepTimedOut  StepState = "timed-out" // its timeout passed
	StepErrored   StepState = "errored"   // it could not be started
	StepSkipped   StepState = "skipped"   // what it needs did not succeed
)

// StepResult is how a step ended, and where its time went.
type StepResult struct {
	Step   string
	State  StepState
	Worker string
	Exit   *sdk.Exit
	Err    error

	Attempts int // that were made, the last of which this tells of; 0: none

	Queue, Stream, Run time.Duration // until placed; then until started; then until ended

	repeated bool // as Event.Repeated
}

// RunResult is how a run ended: one result for each step, in the job's order.
type RunResult struct {
	ID      string
	Steps   []StepResult
	Outputs map[string]string // targets that were written, by output; absolute, unless they are names for Deliver
	Took    time.Duration

	// Recorded says that the run had ended before, and that this is what it came to then: nothing was run.
	Recorded bool
	// Abandoned says why the run was given up before its end, where nobody resumed it: Steps are those of its steps that had begun, in the
	// order in which they had, and no output was delivered that is not among Outputs. Empty: it came to its end.
	Abandoned string
}

// Failure is FailedPrecondition with sdk.ReasonAbandoned for a run that was given up; nil for all others, however their steps ended.
func (r *RunResult) Failure() error {
	if r.Abandoned == "" {
		return nil
	}
	return sdk.NewFailedPrecondition(sdk.ReasonAbandoned, "run", r.ID, "run %s was given up: %s; give another id to run its job anew", r.ID, r.Abandoned)
}

// Succeeded tells whether the run came to its end and every step succeeded.
func (r *RunResult) Succeeded() bool {
	return r.Abandoned == "" && !slices.ContainsFunc(r.Steps, func(s StepResult) bool { return s.State != StepSucceeded })
}

// RunBusyError says that this host runs that id already.
type RunBusyError struct{ ID string }

func (e *RunBusyError) Error() string {
	return fmt.Sprintf("run %s is under way in this host already", e.ID)
}

// NewRunID makes an id for a run.
func NewRunID() string { return newID("r") }

// RunOwner is the owner of a step's container.
func RunOwner(run, step string) string { return runPrefix + run + "/" + step }

const runPrefix = "run/"

// MainProcess is the name of a step's one process.
const MainProcess = "main"

// Run runs a job: each step as soon as what it needs has succeeded, independent ones side by side. A step that fails stops only
// what needs it. When ctx ends, what runs is aborted with a grace, and everything is cleaned up before Run returns. The
// error is about the run as a whole (it could not begin, an output could not be written); how the steps fared is in the
// result, which is there in either case once a step has begun. A run of which an output could not be written can be resumed, unless the content of
// all of those is lost with the workers that had it, which is NotFound of KindArtifact, or is no archive that can be unpacked: that is the run's end.
func (h *Host) Run(ctx context.Context, req RunRequest) (*RunResult, error) {
	began := time.Now()
	if req.ID == "" {
		req.ID = NewRunID()
	}
	if err := CheckRunID(req.ID); err != nil {
		return nil, err
	}
	if !h.enterRun(req.ID) {
		return nil, &RunBusyError{ID: req.ID}
	}
	defer h.leaveRun(ctx, req.ID)
	ctx, release := hurried(ctx, cmp.Or(req.Grace, DefaultGrace)+cleanupTime, req.Kill)
	defer release()
	events, leave := whileHere(req.Events)
	defer leave()
	req.Events = events
	if past, err := h.recorded(ctx, req); past != nil || err != nil {
		if past != nil && req.Events != nil {
			for i := range past.Steps {
				s := &past.Steps[i]
				req.Events(Event{Time: time.Now(), Step: s.Step, Kind: EventFinished, Worker: s.Worker, Result: s, Exit: s.Exit, Repeated: true})
			}
		}
		return past, req.notBegun(ctx, err)
	}
	held := &holds{h: h}
	defer held.letGo()
	for _, inputs := range []map[string]*Artifact{req.Artifacts, req.Brought} {
		for _, a := range inputs {
			held.add(a.ID)
		}
	}
	r, err := h.beginRun(ctx, req)
	if err != nil {
		return nil, req.notBegun(ctx, err)
	}
	h.mu.Lock()
	h.going[r.id] = r
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.going, r.id)
		h.mu.Unlock()
	}()
	var steps sync.WaitGroup
	results := make([]StepResult, len(req.Job.Steps))
	for i := range req.Job.Steps {
		steps.Go(func() {
			s := &req.Job.Steps[i]
			if kept, ended := r.ended[s.Name]; ended {
				results[i] = kept.result()
				results[i].repeated = true
				r.tellAgain(ctx, results[i])
			} else {
				results[i] = r.step(ctx, s)
				r.h.fault("step-ended")
				r.keepStep(ctx, results[i], false)
				r.h.fault("step-kept")
			}
			r.mu.Lock()
			r.results[s.Name] = results[i]
			r.mu.Unlock()
			r.tell(Event{Step: s.Name, Kind: EventFinished, Worker: results[i].Worker, Result: &results[i], Exit: results[i].Exit, Repeated: results[i].repeated})
			close(r.done[s.Name])
		})
	}
	steps.Wait()
	out := &RunResult{ID: r.id, Steps: results}
	defer func() { out.Took = time.Since(began) }()
	if h.ctx.Err() == nil {
		out.Outputs, err = r.takeOutputs(ctx)
	}
	if h.ctx.Err() != nil {
		return out, errors.Join(err, fmt.Errorf("run %s can be resumed: %w", r.id, ErrClosed))
	}
	if err != nil && ctx.Err() == nil && !hopeless(err) {
		if h.ephemeral() {
			return out, fmt.Errorf("%w: what was made goes with this run; with a state directory it could be resumed", err)
		}
		// What was made is kept: it may have taken hours, and the target may be mended.
		return out, fmt.Errorf("%w: resume run %s to write it", err, r.id)
	}
	out.Took = time.Since(began)
	return out, errors.Join(err, r.end(ctx, out))
}

// run is a run under way.
type run struct {
	h    *Host
	req  RunRequest
	id   string
	done map[string]chan struct{} // by step; closed when its result is there

	ended map[string]keptStep // the steps that had ended under an earlier host
	lost  map[string]int      // the last attempt at a step that an earlier host has told that it was lost, by step

	turns   *turns
	crowded sync.Once // it was told that steps wait for their turns

	mu        sync.Mutex
	results   map[string]StepResult
	artifacts map[job.Ref]*Artifact // by reference without its place
	stdin     io.Reader             // nil: there is none, or a step had it under an earlier host
	fed       string                // the step that has
}

func (h *Host) beginRun(ctx context.Context, req RunRequest) (*run, error) {
	if req.Grace == 0 {
		req.Grace = DefaultGrace
	}
	r := &run{h: h, req: req, id: req.ID, done: make(map[string]chan struct{}), results: make(map[string]StepResult),
		artifacts: make(map[job.Ref]*Artifact), stdin: req.Stdin, turns: newTurns(int64(req.Parallel))}
	if req.Deliver == nil {
		placing, err := h.RunPlacing(ctx, r.id)
		if err != nil {
			return nil, err
		}
		placed := Placed(placing, req.Outputs)
		maps.Copy(placed, req.Placed)
		r.req.Placed = placed
	}
	if err := r.req.Check(); err != nil {
		return nil, err
	}
	if err := r.resumable(ctx); err != nil {
		return nil, err
	}
	if err := r.claim(ctx); err != nil {
		return nil, err
	}
	h.fault("run-claimed")
	if err := r.addInputs(context.WithoutCancel(ctx)); err != nil { // it has begun: an interrupt now ends it, as one later does
		return nil, err
	}
	for _, s := range req.Job.Steps {
		r.done[s.Name] = make(chan struct{})
	}
	return r, nil
}

// Check finds everything wrong with the id, the inputs and the outputs before anything runs, as [Host.Run] does by itself.
func (q *RunRequest) Check() error {
	var errs []error
	if q.ID != "" {
		if err := CheckRunID(q.ID); err != nil {
			errs = append(errs, err)
		}
	}
	known := make(map[string]bool)
	for _, in := range q.Job.Inputs {
		known[in.Name] = true
		if q.Artifacts[in.Name] != nil || q.Brought[in.Name] != nil {
			continue
		}
		dir, ok := q.Inputs[in.Name]
		if !ok {
			errs = append(errs, sdk.NewInvalid(sdk.ReasonSpec, "%s: input %q needs a directory: give -i %s=DIR", in.Range, in.Name, in.Name))
			continue
		}
		if fi, err := os.Stat(dir); err != nil {
			errs = append(errs, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonPath, Message: fmt.Sprintf("input %q: %v", in.Name, err), Cause: err})
		} else if !fi.IsDir() && !fi.Mode().IsRegular() {
			errs = append(errs, sdk.NewInvalid(sdk.ReasonPath, "input %q: %s is neither a directory nor a file", in.Name, dir))
		}
	}
	given := slices.AppendSeq(slices.Collect(maps.Keys(q.Inputs)), maps.Keys(q.Artifacts))
	given = slices.AppendSeq(given, maps.Keys(q.Brought))
	slices.Sort(given)
	for _, name := range given {
		if !known[name] {
			errs = append(errs, sdk.NewInvalid(sdk.ReasonSpec, "the job has no input %q: its inputs are %q", name, slices.Sorted(maps.Keys(known))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Outputs)) {
		if !slices.ContainsFunc(q.Job.Outputs, func(o job.Output) bool { return o.Name == name }) {
			errs = append(errs, sdk.NewInvalid(sdk.ReasonSpec, "the job has no output %q: its outputs are %q", name, q.outputNames()))
			continue
		}
		if q.Deliver != nil {
			continue
		}
		for other, target := range q.Outputs {
			if other < name && overlap(target, q.Outputs[name]) {
				errs = append(errs, sdk.NewInvalid(sdk.ReasonPath, "outputs %q and %q are both to be in %s", other, name, target))
			}
		}
		if q.Placed[name] && !q.Force {
			continue
		}
		if err := stream.CheckTarget(q.Outputs[name], q.Force); err != nil {
			errs = append(errs, &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonPath, Message: fmt.Sprintf("output %q: %v", name, err), Cause: err})
		}
	}
	return errors.Join(errs...)
}

func (q *RunRequest) outputNames() []string {
	var out []string
	for _, o := range q.Job.Outputs {
		out = append(out, o.Name)
	}
	return out
}

func (r *run) owner(step string) string { return RunOwner(r.id, step) }

// claim makes the run's row, or finds it, notes that it is under way, and takes what was brought for it.
func (r *run) claim(ctx context.Context) error {
	digest, err := json.Marshal(r.req.Job.Digest())
	if err != nil {
		return err
	}
	return r.h.store.Update(ctx, store.PowerSafe, func(tx *store.Tx) error {
		now := r.h.clock.wall()
		_, err := runLife.move(tx, r.id, lifecycle.Begun, func(row *store.Run) error {
			if row.ID == "" {
				*row = store.Run{ID: r.id, Job: digest, CreatedAt: now}
			}
			row.ActiveAt = now
			return nil
		})
		if err != nil {
			return err
		}
		return r.takeBrought(tx)
	})
}

func (r *run) tell(e Event) {
	if r.req.Events != nil {
		e.Time = time.Now()
		r.req.Events(e)
	}
}
