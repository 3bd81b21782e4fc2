// Command slipway runs jobs and commands in containers on whatever runtimes its configuration names, and on memory if it
// names none.
//
// Here is wiring only: flags, files, what is printed, and exit codes. What a run does is package host's.
package main

import (
	"context"
	"fmt"
	"os"
)

// version is set by the build.
var version = "dev"

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	err := a.command().ExecuteContext(context.Background())
	if err != nil {
		a.printError(err)
	}
	os.Exit(exitCode(err))
}

func (a *app) printError(err error) {
	if text := describe(err); text != "" {
		fmt.Fprintln(a.err, text)
	}
}
