// Command slipway runs jobs and commands in containers on whatever runtimes its configuration names, and on memory if it
// names none.
//
// Here is wiring only: flags, files, what is printed, and exit codes. What a run does is package host's.
package main

import (
	"context"
	"os"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(slipway())
}

func slipway() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a := &app{in: os.Stdin, out: newOutlet(os.Stdout, "stdout", cancel), err: newOutlet(os.Stderr, "stderr", cancel), hangups: newHangups()}
	hurry, stop := watchSignals(cancel, a.hangups, giveUpTime(), a.giveUp)
	defer stop()
	a.hurry, a.out.hurry, a.err.hurry = hurry, hurry, hurry
	err := a.command().ExecuteContext(ctx)
	return a.end(context.Cause(ctx), err)
}
