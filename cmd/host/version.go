package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/sdk"
)

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.format == formatJSON {
				return a.out.writeJSON(map[string]string{"version": version, "sdk": sdk.Version})
			}
			_, err := fmt.Fprintf(a.out, "slipway %s (sdk %s)\n", version, sdk.Version)
			return err
		},
	}
	a.formatFlag(c)
	return c
}
