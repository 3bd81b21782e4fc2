// Command gate runs tests and says whether a change may land.
//
//	gate [-repeat N] [-strict] [-grace DURATION] [-first COMMAND] [-meanwhile COMMAND] STAGE...
//
// A stage is the arguments of one go test in one string: flags, then packages. The stages run side by side, all of them even if one
// fails, and never from the cache. Both COMMANDs are run by a shell: the first one before any stage, of which none begins if it fails, and that which is
// done meanwhile from the beginning on, until the last stage, which needs it.
//
// A test that failed is repeated once by itself, if no more than N failed. When it passes then the gate goes on, but the test is told as
// FLAKY, with what it printed when it failed last on the screen: its cause is still to be found. Nothing is repeated after a data race,
// a panic, a leak of goroutines, or a package that does not build.
//
// It ends with its parent: what it has started is interrupted, and killed ten seconds later. That has a guard of its own, this program again,
// which also outlives a gate that is killed; and what the tests leave running fails the run.
//
// Skipped tests are counted by reason. With -strict a reason that [allowed] does not list fails the run.
//
// Exit codes: 0 passed, 1 failed, 2 wrong arguments.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 3 && os.Args[1] == guardArg {
		os.Exit(guard(os.Stdin, os.Args[2:]))
	}
	repeat := flag.Int("repeat", 3, "repeat the tests that failed if they are no more than `N`")
	strict := flag.Bool("strict", false, "fail where a test was skipped for another reason than its tier")
	first := flag.String("first", "", "a shell `command` that all stages need done")
	meanwhile := flag.String("meanwhile", "", "a shell `command` that the last stage needs done")
	grace := flag.Duration("grace", 30*time.Second, "how long what the tests started may take to end after them")
	flag.Parse()
	endWithParent()
	if flag.NArg() == 0 || *repeat < 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends at once
	g := gate{out: os.Stdout, goTest: goTest, repeat: *repeat, strict: *strict, grace: *grace, flags: map[string][]string{}}
	if !g.run(ctx, flag.Args(), *first, *meanwhile) {
		os.Exit(1)
	}
}
