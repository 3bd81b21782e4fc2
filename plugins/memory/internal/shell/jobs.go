package shell

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// job is a background job that the shell itself started, so that kill can find
// it. Its commands know it by a variable, which the rewritten script sets while
// it starts the job.
type job struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

const jobVariable = "_SLIPWAY_JOB"

// startJob runs before every & of the script, endStart after it.
func (u *unit) startJob(ctx context.Context, hc interp.HandlerContext, _ []string) error {
	if !u.isMain(hc) {
		return nil
	}
	j := &job{}
	j.ctx, j.cancel = context.WithCancelCause(u.ctx)
	u.mu.Lock()
	u.jobs = append(u.jobs, j)
	n := len(u.jobs)
	u.mu.Unlock()
	return assign(ctx, hc, jobVariable, strconv.Itoa(n))
}

func (u *unit) endStart(ctx context.Context, hc interp.HandlerContext, _ []string) error {
	if !u.isMain(hc) {
		return nil
	}
	return hc.Builtin(ctx, []string{"unset", jobVariable})
}

// jobNamed finds a job by what $! said of it.
func (u *unit) jobNamed(pid string) *job {
	n, err := strconv.Atoi(strings.TrimPrefix(pid, "g"))
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil || pid[0] != 'g' || n < 1 || n > len(u.jobs) {
		return nil
	}
	return u.jobs[n-1]
}

// jobOf is the job that a command belongs to, nil if none.
func (u *unit) jobOf(hc interp.HandlerContext) *job {
	v := hc.Env.Get(jobVariable)
	if !v.IsSet() || u.isMain(hc) {
		return nil
	}
	return u.jobNamed("g" + v.Str)
}

// killedJob says which signal killed the job that a command belongs to.
func (u *unit) killedJob(hc interp.HandlerContext) (k killed, ok bool) {
	if !u.jobKilled.Load() {
		return k, false
	}
	j := u.jobOf(hc)
	return k, j != nil && errors.As(context.Cause(j.ctx), &k)
}
