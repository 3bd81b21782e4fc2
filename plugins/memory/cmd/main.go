// Command slipway-memory is the memory runtime as a plugin, and with "world" as a process that outlives plugins.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/slipway-run/slipway/plugins/memory"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "world" {
		rpc.Serve(memory.Plugin())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := memory.WorldCommand(ctx, os.Args[2:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "slipway-memory:", err)
		os.Exit(1)
	}
}
