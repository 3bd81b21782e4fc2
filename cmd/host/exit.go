package main

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/config"
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

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[codeError](err); ok {
		return e.code
	}
	var usage usageError
	var bad *host.ConfigError
	if errors.As(err, &usage) || errors.As(err, &bad) || errors.Is(err, sdk.Invalid) {
		return codeUsage
	}
	return codeInternal
}

// describe gives the text for an error, with the lines of a configuration that it is about.
func describe(err error) string {
	if errors.Is(err, errPrinted) {
		return ""
	}
	return "slipway: " + strings.TrimSpace(err.Error())
}

func (a *app) writeDiagnostics(diags hcl.Diagnostics) {
	config.WriteDiagnostics(a.err, diags, nil, false)
}

// stepsCode is the exit code for the results of a run: the worst of them.
func stepsCode(steps []host.StepResult) int {
	rank := []struct {
		state host.StepState
		code  int
	}{
		{host.StepAborted, codeInterrupted},
		{host.StepLost, codeLost},
		{host.StepErrored, codeInternal},
		{host.StepTimedOut, codeTimedOut},
		{host.StepFailed, codeStepFailed},
	}
	for _, r := range rank {
		for _, s := range steps {
			if s.State == r.state {
				if r.state == host.StepErrored && errors.Is(s.Err, sdk.Invalid) {
					return codeUsage
				}
				return r.code
			}
		}
	}
	return 0
}
