package main

import (
	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
)

func (a *app) runCommand() *cobra.Command {
	var flags runFlags
	c := &cobra.Command{
		Use:   "run JOB.hcl",
		Short: "Run a job: its steps in containers, side by side where they can",
		Long: `Run a job: its steps in containers, side by side where they can.

What steps write is shown line by line below their names, stdout on stdout, the rest on stderr.
` + jsonHelp,
		Example: `  slipway run wordcount.hcl -i text=./texts -o report=./out
  slipway run build.hcl -i src=. -o json | jq .event`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
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
	c.Flags().StringVar(&flags.id, "id", "", "`name` of the run; the same one on the same --state resumes it")
	return c
}

// runError is what a run's command ends with.
func runError(res *host.RunResult, err error) error {
	if err != nil {
		return err
	}
	if code := stepsCode(res.Steps); code != 0 {
		return codeError{errPrinted, code}
	}
	return nil
}
