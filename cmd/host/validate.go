package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/job"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [JOB.hcl...]",
		Short: "Check the configuration, plugins' own settings too, and job files",
		Long: `Check the configuration, plugins' own settings too, and job files.

Plugins are started with their settings, and nothing is run. It has a state directory of its own for that, whatever --state says,
so that it can check what a daemon is to be given next.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			a.stateDir = "" // a temporary one: that of a daemon is locked, and none is to be changed by looking
			bad := false
			for _, file := range args {
				_, diags := job.Load(file)
				if len(diags) > 0 {
					a.writeDiagnostics(diags)
				}
				bad = bad || diags.HasErrors()
			}
			err := a.withHost(c.Context(), readyTime, func(h *host.Host) error { return a.checkPlugins(h) })
			if err != nil {
				return err
			}
			if bad {
				return usageError{errPrinted}
			}
			_, err = fmt.Fprintln(a.out, "valid")
			return err
		},
	}
}

// checkPlugins wants every plugin to run with its settings.
func (a *app) checkPlugins(h *host.Host) error {
	errs := failures(h.Plugins())
	if a.showConfigErrors(errs) {
		return usageError{errPrinted}
	}
	return errors.Join(errs...)
}
