// Command slipway-memory is the memory runtime as a plugin, and with "world" as a process that outlives plugins.
package main

import (
	"cmp"
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
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "world":
			world(os.Args[2:])
			return
		case "help", "-h", "-help", "--help":
			if err := memory.WriteUsage(os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, "slipway-memory:", err)
				os.Exit(1)
			}
			return
		}
	}
	// All that it needs of the machine is where its socket goes.
	if err := memory.Confine(cmp.Or(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), os.TempDir())); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-memory:", err)
	}
	rpc.Serve(memory.Plugin())
}

func world(args []string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := memory.WorldCommand(ctx, args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "slipway-memory:", err)
		os.Exit(1)
	}
}
