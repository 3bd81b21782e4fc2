package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
	"github.com/slipway-run/slipway/sdk"
)

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	var abort string
	c := &cobra.Command{
		Use:   "run JOB.hcl",
		Short: "Run a job: its steps in containers, side by side where they can",
		Long: `Run a job: its steps in containers, side by side where they can.

What steps write is shown line by line below their names, stdout on stdout, the rest on stderr.
` + jsonHelp,
		Example: `  slipway run wordcount.hcl -i text=./texts -o report=./out
  slipway run build.hcl -i src=. -o json | jq .event`,
		Args: func(_ *cobra.Command, args []string) error {
			if abort != "" {
				if len(args) > 0 || flags.id != "" {
					return errors.New("run --abort ID takes neither a job file nor --id")
				}
				return nil
			}
			switch len(args) {
			case 0:
				return errors.New("run needs a job file: slipway run JOB.hcl")
			case 1:
				return nil
			}
			return fmt.Errorf("run takes one job file, not %d", len(args))
		},
		RunE: func(c *cobra.Command, args []string) error {
			if abort != "" {
				return a.abort(c.Context(), abort)
			}
			if flags.id != "" && a.stateDir == "" {
				return usageError{fmt.Errorf("--id %s needs --state DIR: a run without one leaves nothing to resume", flags.id)}
			}
			req, format, err := flags.request()
			if err != nil {
				return err
			}
			j, diags := job.Load(args[0])
			if len(diags) > 0 {
				a.writeDiagnostics(diags)
			}
			if diags.HasErrors() {
				return usageError{errPrinted}
			}
			req.Job = j
			res, err := a.execute(c.Context(), req, format, false)
			return runError(res, err)
		},
	}
	flags.add(c)
	c.Flags().StringVar(&flags.id, "id", "", "`name` of the run; the same one on the same --state resumes it; not without --state")
	c.Flags().IntVar(&flags.most, "parallel", 0, "how many `steps` go side by side at most; 0: as many as are ready and as slipway may open files for")
	c.Flags().StringVar(&abort, "abort", "", "`ID`: in place of running a job, end this run, under way or not, and destroy what it has; not without --state")
	a.rawFlag(c)
	return c
}

// abort ends a run for its operator. That of one that has ended changes nothing, and is told.
func (a *app) abort(ctx context.Context, id string) error {
	if a.stateDir == "" {
		return usageError{fmt.Errorf("--abort %s needs --state DIR: a run without one ends with its command", id)}
	}
	return a.withBackend(ctx, readyTime, func(b backend) error { // of a plugin that does not come, what it has stays
		res, left, err := b.abort(ctx, id)
		if errors.Is(err, sdk.NotFound) {
			err = usageError{err}
		}
		if res == nil {
			return err
		}
		text := "it had ended"
		switch {
		case res.Abandoned != "":
			text = res.Abandoned
		case slices.ContainsFunc(res.Steps, func(s host.StepResult) bool { return s.State == host.StepAborted }):
			text = "it was aborted"
		}
		a.say(fmt.Sprintf("run %s: %s", id, text))
		for _, s := range res.Steps {
			a.say(fmt.Sprintf("  step %s %s", s.Step, s.Summary()))
		}
		a.tellLeft(left)
		return nil
	})
}

// runError is what a run's command ends with.
func runError(res *host.RunResult, err error) error {
	var steps []host.StepResult
	if res != nil {
		steps = res.Steps
	}
	code := runCode(steps, err)
	if code == 0 {
		return nil
	}
	if err == nil {
		err = errPrinted
	}
	return codeError{err, code}
}
