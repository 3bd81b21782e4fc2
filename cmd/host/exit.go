package main

import (
	"context"
	"errors"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

// The exit codes; the root command's help tells what they mean.
const (
	codeStepFailed  = 1
	codeUsage       = 2
	codeLost        = 3
	codeInternal    = 4
	codeTimedOut    = 5
	codeInterrupted = 130
	codeClosed      = 141 // as if SIGPIPE had ended it

	codeExecFailed        = 125
	codeExecNotExecutable = 126
	codeExecNotFound      = 127
)

// errPrinted stands for what was printed already.
var errPrinted = errors.New("")

// usageError is a mistake in what the user gave.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// codeError is an error with an exit code of its own.
type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

// end prints why a command failed, and gives the exit code. The cause is that of the command's context.
func (a *app) end(cause, err error) int {
	if broken, ok := errors.AsType[*outletError](cause); ok {
		if broken.closed() {
			return codeClosed
		}
		a.complain(broken)
		if a.executes {
			return codeExecFailed
		}
		return codeInternal
	}
	_, stopped := errors.AsType[interrupted](cause)
	if err == nil && stopped {
		err = a.unwritten()
	}
	if err == nil {
		return 0
	}
	if stopped {
		if errors.Is(err, context.Canceled) {
			err = cause
		}
		a.complain(err)
		return codeInterrupted
	}
	a.complain(err)
	return exitCode(err)
}

// unwritten says what of a command's output was given up, since nobody read it when it was interrupted for the second time. All else may have gone well.
func (a *app) unwritten() error { return errors.Join(a.out.failure(), a.err.failure()) }

func exitCode(err error) int {
	if e, ok := errors.AsType[codeError](err); ok {
		return e.code
	}
	var usage usageError
	var bad *host.ConfigError
	if isType[*stream.UnpackError](err) { // what was made is at fault, not what was asked for
		return codeInternal
	}
	if errors.As(err, &usage) || errors.As(err, &bad) || errors.Is(err, sdk.Invalid) {
		return codeUsage
	}
	if errors.Is(err, sdk.ReasonAbandoned) { // a run was, and its steps with it
		return codeInterrupted
	}
	return codeInternal
}

// stepCode is the exit code of a run of this one step. What is wrong with a step is not wrong with the command line.
func stepCode(s host.StepResult) int {
	switch s.State {
	case host.StepAborted:
		return codeInterrupted
	case host.StepLost:
		return codeLost
	case host.StepErrored:
		return codeInternal
	case host.StepTimedOut:
		return codeTimedOut
	case host.StepFailed:
		return codeStepFailed
	}
	return 0
}

// runCode is the exit code of a run, of all that apply the first in the order that the root command's help tells. The failure is of
// the run as a whole, and may be nil.
func runCode(steps []host.StepResult, failure error) int {
	applies := make(map[int]bool)
	if failure != nil {
		applies[exitCode(failure)] = true
	}
	for _, s := range steps {
		applies[stepCode(s)] = true
	}
	for _, code := range []int{codeUsage, codeInterrupted, codeLost, codeInternal, codeTimedOut, codeStepFailed} {
		if applies[code] {
			return code
		}
	}
	return 0
}
