// Command mutant stands in front of a plugin and breaks it: its arguments are a mutant's name, "--", and the plugin's command.
package main

import (
	"fmt"
	"os"

	"github.com/slipway-run/slipway/conformance/mutant"
)

func main() {
	if len(os.Args) < 4 || os.Args[2] != "--" {
		fmt.Fprintln(os.Stderr, "usage: mutant NAME -- COMMAND")
		os.Exit(2)
	}
	if err := mutant.Serve(os.Args[1], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
