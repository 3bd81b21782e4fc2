package host

import (
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
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// DefaultGrace is how long an aborted step may take to end by itself.
const DefaultGrace = 10 * time.Second

// RunRequest says what job to run.
type RunRequest struct {
	// ID names the run; empty: one is made. The same id on the same state directory resumes that run, if the job is the same.
	ID      string
	Job     *job.Job
	Inputs  map[string]string // a directory by the name of each of the job's inputs
	Outputs map[string]string // a target directory by the name of an output; those without one are not kept
	Force   bool              // replace targets that are not empty

	Stdin io.Reader // for the first step that starts; meant for jobs of one step
	Grace time.Duration
	// Kill, once closed, ends what is left of the grace of an abort. Nil: nobody hurries.
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

	Queue, Stream, Run time.Duration // until placed; then until started; then until ended
}

// RunResult is how a run ended: one result for each step, in the job's order.
type RunResult struct {
	ID      string
	Steps   []StepResult
	Outputs map[string]string // targets that were written, by output
	Took    time.Duration

	// Recorded says that the run had ended before, and that this is what it came to then: nothing was run.
	Recorded bool
}

// Succeeded tells whether every step succeeded.
func (r *RunResult) Succeeded() bool {
	return !slices.ContainsFunc(r.Steps, func(s StepResult) bool { return s.State != StepSucceeded })
}

// RunBusyError says that this host runs that id already.
type RunBusyError struct{ ID string }

func (e *RunBusyError) Error() string {
	return fmt.Sprintf("run %s is under way in this host already", e.ID)
}

// NewRunID makes an id for a run.
func NewRunID() string { return newID("r") }

// RunOwner is the owner of a step's container.
func RunOwner(run, step string) string { return "run/" + run + "/" + step }

// MainProcess is the name of a step's one process.
const MainProcess = "main"

// States of a run's row.
const (
	runGoing  = "going"
	runEnding = "ending" // all its steps have ended; what is left of it goes
	runEnded  = "ended"
)

// Run runs a job: each step as soon as what it needs has succeeded, independent ones side by side. A step that fails stops only
// what needs it. When ctx ends, what runs is aborted with a grace, and everything is cleaned up before Run returns. The
// error is about the run as a whole (it could not begin, an output could not be written); how the steps fared is in the
// result, which is there in either case once a step has begun.
func (h *Host) Run(ctx context.Context, req RunRequest) (*RunResult, error) {
	began := time.Now()
	if req.ID == "" {
		req.ID = NewRunID()
	}
	h.mu.Lock()
	busy := h.runs[req.ID]
	h.runs[req.ID] = true
	h.mu.Unlock()
	if busy {
		return nil, &RunBusyError{ID: req.ID}
	}
	defer func() {
		h.mu.Lock()
		delete(h.runs, req.ID)
		h.mu.Unlock()
	}()
	events, leave := whileHere(req.Events)
	defer leave()
	req.Events = events
	if past, err := h.recorded(ctx, req); past != nil || err != nil {
		if past != nil && req.Events != nil {
			for i := range past.Steps {
				s := &past.Steps[i]
				req.Events(Event{Time: time.Now(), Step: s.Step, Kind: EventFinished, Worker: s.Worker, Result: s, Exit: s.Exit})
			}
		}
		return past, err
	}
	r, err := h.beginRun(ctx, req)
	if err != nil {
		return nil, err
	}
	var steps sync.WaitGroup
	results := make([]StepResult, len(req.Job.Steps))
	for i := range req.Job.Steps {
		steps.Go(func() {
			s := &req.Job.Steps[i]
			results[i] = r.step(ctx, s)
			r.mu.Lock()
			r.results[s.Name] = results[i]
			r.mu.Unlock()
			r.tell(Event{Step: s.Name, Kind: EventFinished, Worker: results[i].Worker, Result: &results[i], Exit: results[i].Exit})
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
	if err != nil && ctx.Err() == nil {
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

	mu        sync.Mutex
	results   map[string]StepResult
	artifacts map[job.Ref]*Artifact // by reference without its place
	stdin     io.Reader             // until a step has taken it
}

func (h *Host) beginRun(ctx context.Context, req RunRequest) (*run, error) {
	if req.Grace == 0 {
		req.Grace = DefaultGrace
	}
	r := &run{h: h, req: req, id: req.ID, done: make(map[string]chan struct{}), results: make(map[string]StepResult),
		artifacts: make(map[job.Ref]*Artifact), stdin: req.Stdin}
	if err := checkOwner(r.owner("x")); err != nil {
		return nil, err
	}
	if err := req.checkTrees(); err != nil {
		return nil, err
	}
	if err := r.claim(ctx); err != nil {
		return nil, err
	}
	for _, in := range req.Job.Inputs {
		a, err := h.AddDir(ctx, r.owner("input/"+in.Name), r.owner(""), req.Inputs[in.Name])
		if err != nil {
			return nil, err
		}
		r.artifacts[job.Ref{Input: in.Name}] = a
	}
	for _, s := range req.Job.Steps {
		r.done[s.Name] = make(chan struct{})
	}
	return r, nil
}

// checkTrees finds everything wrong with the directories before anything runs.
func (q *RunRequest) checkTrees() error {
	var errs []error
	known := make(map[string]bool)
	for _, in := range q.Job.Inputs {
		known[in.Name] = true
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
	for _, name := range slices.Sorted(maps.Keys(q.Inputs)) {
		if !known[name] {
			errs = append(errs, sdk.NewInvalid(sdk.ReasonSpec, "the job has no input %q: its inputs are %q", name, slices.Sorted(maps.Keys(known))))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Outputs)) {
		if !slices.ContainsFunc(q.Job.Outputs, func(o job.Output) bool { return o.Name == name }) {
			errs = append(errs, sdk.NewInvalid(sdk.ReasonSpec, "the job has no output %q: its outputs are %q", name, q.outputNames()))
			continue
		}
		for other, target := range q.Outputs {
			if other < name && overlap(target, q.Outputs[name]) {
				errs = append(errs, sdk.NewInvalid(sdk.ReasonPath, "outputs %q and %q are both to be in %s", other, name, target))
			}
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

// claim makes the run's row, or finds it.
func (r *run) claim(ctx context.Context) error {
	digest, err := digestOf(r.req.Job)
	if err != nil {
		return err
	}
	return r.h.store.Update(ctx, store.PowerSafe, func(tx *store.Tx) error {
		if _, err := tx.Run(r.id); !errors.Is(err, store.ErrNotFound) {
			return err
		}
		return tx.PutRun(store.Run{ID: r.id, Job: digest, State: runGoing, CreatedAt: time.Now()})
	})
}

func (r *run) tell(e Event) {
	if r.req.Events != nil {
		e.Time = time.Now()
		r.req.Events(e)
	}
}

// takeOutputs downloads what the request wants of the steps that succeeded.
func (r *run) takeOutputs(ctx context.Context) (map[string]string, error) {
	taken := make(map[string]string)
	var errs []error
	for _, o := range r.req.Job.Outputs {
		target, ok := r.req.Outputs[o.Name]
		if !ok || ctx.Err() != nil {
			continue
		}
		if o.From.Step != "" && r.results[o.From.Step].State != StepSucceeded {
			continue
		}
		a, err := r.artifact(ctx, o.From)
		if err == nil {
			err = r.h.DownloadDir(ctx, a, target, r.req.Force)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("output %q: %w", o.Name, err))
			continue
		}
		taken[o.Name] = target
	}
	return taken, errors.Join(errs...)
}

// artifact gives what a reference names, of a step that has ended.
func (r *run) artifact(ctx context.Context, ref job.Ref) (*Artifact, error) {
	key := job.Ref{Input: ref.Input, Step: ref.Step, Output: ref.Output}
	r.mu.Lock()
	a := r.artifacts[key]
	r.mu.Unlock()
	if a != nil {
		return a, nil
	}
	return r.h.Artifact(ctx, OutputName(r.owner(ref.Step), ref.Output))
}

// end keeps the run's result and destroys what else is left of it but its records and output.
func (r *run) end(ctx context.Context, result *RunResult) error {
	text, err := json.Marshal(record(result))
	if err != nil {
		return err
	}
	ctx, cancel := r.h.cleanup(ctx)
	defer cancel()
	if err := r.put(ctx, runEnding, text); err != nil {
		return err
	}
	return r.sweep(ctx)
}

// sweep ends a run whose result is kept.
func (r *run) sweep(ctx context.Context) error {
	var rows []store.Artifact
	err := r.h.store.View(ctx, func(tx *store.Tx) (err error) {
		rows, err = tx.Artifacts(store.ArtifactFilter{OwnerPrefix: r.owner("")})
		return err
	})
	return errors.Join(err, r.removeArtifacts(ctx, rows), r.put(ctx, runEnded, nil))
}

// removeArtifacts removes what is left of the run's artifacts: those last of which others are copies, as an output at an input's path is.
func (r *run) removeArtifacts(ctx context.Context, rows []store.Artifact) error {
	for {
		var errs []error
		var inUse []store.Artifact
		for _, row := range rows {
			err := r.h.RemoveArtifact(ctx, &Artifact{ID: row.ID, Name: row.Name})
			if errors.Is(err, sdk.ReasonInUse) {
				inUse = append(inUse, row)
			}
			errs = append(errs, err)
		}
		if len(inUse) == 0 || len(inUse) == len(rows) {
			return errors.Join(errs...)
		}
		rows = inUse
	}
}

func (r *run) put(ctx context.Context, state string, result []byte) error {
	return r.h.store.Release(ctx, store.KillSafe, func(tx *store.Tx) error {
		row, err := tx.Run(r.id)
		if err != nil {
			return err
		}
		row.State, row.EndedAt = state, time.Now()
		if result != nil {
			row.Result = result
		}
		return tx.PutRun(row)
	})
}
