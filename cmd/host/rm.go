package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/sdk"
)

func (a *app) rmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm OWNER...",
		Short: "Destroy containers that were made over the API",
		Long: `Destroy the containers of these owners, with what runs in them and what they have. Slipway ps lists owners.

One that is still being made, or waits for a place, is given up, and rm waits until that is undone; who asked for it is told so, and
may ask again. One on a worker that is away is destroyed as soon as that is back, without being asked again: rm says so, and exits
with 4. What was told of their processes, and their output, can still be read, until the owner asks for a container again: it gets
a new one. A container of a run goes with the run: end that with
slipway run --abort RUN.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.needsState("rm needs"); err != nil {
				return err
			}
			for _, owner := range args {
				if run := host.RunOf(owner); run != "" {
					return usageError{fmt.Errorf("%s belongs to run %s, and goes with it: slipway run --abort %s ends that", owner, run, run)}
				}
			}
			return a.withBackend(c.Context(), readyTime, func(b backend) error {
				var errs []error
				for _, owner := range args {
					err := b.destroyContainer(c.Context(), owner)
					if sdk.ClassOf(err) == sdk.NotFound {
						err = usageError{fmt.Errorf("%w: slipway ps lists owners", err)}
					}
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			})
		},
	}
}
