package shell

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/interp"
)

// beginPipeline is pipe: the stages of a pipeline, which know its number by a variable, will note how they end.
func (u *unit) beginPipeline(ctx context.Context, hc interp.HandlerContext, _ []string) error {
	u.mu.Lock()
	u.texted++
	number := strconv.Itoa(u.texted)
	if u.staged == nil {
		u.staged = make(map[string]map[int]int)
	}
	u.staged[number] = make(map[int]int)
	u.mu.Unlock()
	return assign(ctx, hc, pipeVariable, number)
}

// endStage is stage NUMBER. The status stays, and errexit is again what quiet found.
func (u *unit) endStage(ctx context.Context, hc interp.HandlerContext, args []string) error {
	code := hc.LastExitStatus
	if len(args) != 1 {
		return status(usage)
	}
	n, _ := strconv.Atoi(args[0])
	u.mu.Lock()
	if stages := u.staged[hc.Env.Get(pipeVariable).String()]; stages != nil {
		stages[n] = code
	}
	u.mu.Unlock()
	if err := hc.Builtin(ctx, []string{"eval", "case $" + quietVariable + " in e) set -e ;; esac"}); err != nil {
		return err
	}
	return status(code)
}

// endPipeline is piped COUNT: it sets PIPESTATUS. The pipeline's status stays.
func (u *unit) endPipeline(ctx context.Context, hc interp.HandlerContext, args []string) error {
	code := hc.LastExitStatus
	if len(args) != 1 {
		return status(usage)
	}
	count, _ := strconv.Atoi(args[0])
	number := hc.Env.Get(pipeVariable).String()
	u.mu.Lock()
	stages := u.staged[number]
	delete(u.staged, number)
	u.mu.Unlock()
	var b strings.Builder
	for i := range min(count, len(stages)) {
		fmt.Fprintf(&b, "%d ", stages[i])
	}
	if err := hc.Builtin(ctx, []string{"eval", "PIPESTATUS=(" + b.String() + ")"}); err != nil {
		return err
	}
	return status(code)
}
