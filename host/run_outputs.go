package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/sdk"
)

// takeOutputs downloads what the request wants of the steps that succeeded.
func (r *run) takeOutputs(ctx context.Context) (map[string]string, error) {
	ctx = onSilence(ctx, func(worker string, why error) { r.tell(pauseEvent(worker, why)) }, func(worker, what string) { r.tell(slowEvent(worker, what)) })
	taken := make(map[string]string)
	var errs []error
	for _, o := range r.req.Job.Outputs {
		target, ok := r.req.Outputs[o.Name]
		if !ok || o.From.Step != "" && r.results[o.From.Step].State != StepSucceeded {
			continue
		}
		if r.placed(o.Name) {
			taken[o.Name] = r.req.place(target)
			continue
		}
		if ctx.Err() != nil { // whoever asked for it is not told that all went well
			errs = append(errs, fmt.Errorf("output %q: %w", o.Name, r.endedBy(ctx)))
			continue
		}
		a, err := r.artifact(ctx, o.From)
		if err == nil {
			err = r.deliver(ctx, o.Name, a, target)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("output %q: %w", o.Name, err))
			continue
		}
		taken[o.Name] = r.req.place(target)
	}
	return taken, errors.Join(errs...)
}

// place is what a target is called in a result, which may be looked at from another directory.
func (q *RunRequest) place(target string) string {
	if q.Deliver != nil {
		return target
	}
	return absolute(target)
}

// hopeless tells whether none of the outputs that could not be taken can ever be: its content is gone, or is no archive that can be unpacked.
func hopeless(err error) bool {
	none := func(err error) bool {
		if failed, ok := errors.AsType[*sourcesError](err); ok {
			return failed.damaged()
		}
		return sdk.IsNotFound(err, KindArtifact) || errors.Is(err, sdk.ReasonArchive)
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !none(err) })
	}
	return none(err)
}

func (r *run) deliver(ctx context.Context, output string, a *Artifact, target string) error {
	if r.req.Deliver != nil {
		return r.req.Deliver(ctx, output, a, target)
	}
	return r.write(ctx, output, a, target)
}

// artifact gives what a reference names, of a step that has ended.
func (r *run) artifact(ctx context.Context, ref job.Ref) (*Artifact, error) {
	key := job.Ref{Input: ref.Input, Step: ref.Step, Output: ref.Output}
	r.mu.Lock()
	a, name := r.artifacts[key], r.outputName(ref)
	r.mu.Unlock()
	if a != nil {
		return a, nil
	}
	return r.h.Artifact(ctx, name)
}

// outputName is the name of the artifact that a reference to an output of a step that has ended means. r.mu is held.
func (r *run) outputName(ref job.Ref) string {
	return OutputName(AttemptOwner(r.id, ref.Step, r.results[ref.Step].Attempts), ref.Output)
}
