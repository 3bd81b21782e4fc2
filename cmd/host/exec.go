package main

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/host/stream"
	"github.com/slipway-run/slipway/sdk"
)

const execStep = "exec"

func (a *app) execCommand() *cobra.Command {
	var flags runFlags
	var env, tags []string
	var step job.Step
	var stdin bool
	c := &cobra.Command{
		Use:   "exec [flags] [--] COMMAND [ARG...]",
		Short: "Run one command in a fresh container",
		Long: `Run one command in a fresh container.

It exits with the command's own code. A command that its --timeout has ended gives 125, as all does that Slipway could not run
to its end; "slipway --help" tells the other codes.

A stdout that is closed from the start (>&-) is as good as /dev/null: the output goes nowhere, and that is no failure.`,
		Example: `  slipway exec -- echo hello
  slipway exec -i src=. -o out=./out -- sh -c 'wc -l src/* > out/lines'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("exec needs a command: slipway exec -- COMMAND [ARG...]")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			req, format, err := flags.request()
			if err != nil {
				return err
			}
			if step.Dir != "" && !path.IsAbs(step.Dir) {
				return usageError{fmt.Errorf("--dir %s: want an absolute path, such as %s", step.Dir, path.Join(host.DefaultDir, step.Dir))}
			}
			if step.Timeout < 0 {
				return usageError{fmt.Errorf("--timeout %s is negative", step.Timeout)}
			}
			step.Name, step.Tags = execStep, tags
			step.Run = job.Run{Path: args[0], Args: args[1:]}
			if step.Env, err = environment(env); err != nil {
				return err
			}
			req.Job = execJob(step, req)
			a.executes = true
			if stdin {
				req.Stdin = a.in
			}
			res, err := a.execute(c.Context(), req, format, true)
			return a.execError(res, err)
		},
	}
	flags.add(c)
	f := c.Flags()
	f.SetInterspersed(false) // what follows the command's name is the command's
	f.StringArrayVarP(&env, "env", "e", nil, "`NAME=VALUE` for the command; may be repeated")
	f.StringVar(&step.Dir, "dir", "", "absolute `path` where the command begins; default "+host.DefaultDir)
	f.StringVar(&step.Runtime, "runtime", "", "plugin that must run it, by `name`")
	f.StringVar(&step.Platform, "platform", "", "`platform` of the worker")
	f.StringArrayVar(&tags, "tag", nil, "`tag` that the worker must have; may be repeated")
	f.StringVar(&step.User, "user", "", "`user` to run as")
	f.DurationVar(&step.Timeout, "timeout", 0, "end the command after so long; it then exits with 125")
	f.BoolVar(&stdin, "stdin", false, "give this command's stdin to it")
	return c
}

// execJob is a job of that one step: each input lies below its name, and so does each output.
func execJob(step job.Step, req host.RunRequest) *job.Job {
	j := &job.Job{Name: execStep}
	step.Inputs = make(map[string]job.Ref)
	inputs := slices.AppendSeq(sortedKeys(req.Inputs), maps.Keys(req.Artifacts))
	slices.Sort(inputs)
	for _, name := range inputs {
		j.Inputs = append(j.Inputs, job.Input{Name: name})
		step.Inputs[name] = job.Ref{Input: name}
	}
	for _, name := range sortedKeys(req.Outputs) {
		step.Outputs = append(step.Outputs, name)
		j.Outputs = append(j.Outputs, job.Output{Name: name, From: job.Ref{Step: execStep, Output: name}})
	}
	j.Steps = []job.Step{step}
	return j
}

func environment(values []string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("-e %s: want NAME=VALUE", v)}
		}
		out[name] = value
	}
	return out, nil
}

// execError makes exec exit with the command's own code.
func (a *app) execError(res *host.RunResult, err error) error {
	if err != nil {
		if exitCode(err) == codeUsage {
			return err
		}
		if isType[*stream.PackError](err) { // of an input, on its way to a daemon
			return usageError{err}
		}
		return codeError{err, codeExecFailed}
	}
	s := res.Steps[0]
	switch s.State {
	case host.StepSucceeded:
		return nil
	case host.StepFailed:
		if code := s.Exit.Code; 0 < code && code <= 255 {
			return codeError{errPrinted, code}
		}
		return codeError{errPrinted, codeExecFailed} // an older slipway has recorded what this one takes from no plugin: it would end with 0
	case host.StepAborted:
		return codeError{errPrinted, codeInterrupted}
	}
	err = errors.New(a.fate(s))
	switch {
	case isType[*stream.PackError](s.Err):
		return usageError{err}
	case errors.Is(s.Err, sdk.Invalid) && errors.Is(s.Err, sdk.ReasonPath):
		return usageError{fmt.Errorf("%w; name inputs and outputs by paths below the command's directory, as -i src=DIR", err)}
	case errors.Is(s.Err, sdk.ReasonExecutableNotFound):
		return codeError{err, codeExecNotFound}
	case errors.Is(s.Err, sdk.ReasonNotExecutable):
		return codeError{err, codeExecNotExecutable}
	}
	return codeError{err, codeExecFailed}
}

// fate says why a command did not come to an end of its own.
func (a *app) fate(s host.StepResult) string {
	if s.State == host.StepTimedOut {
		return "the command timed out: " + s.Err.Error()
	}
	return a.words(s.Err)
}
