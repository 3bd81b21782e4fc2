//go:build linux

// Command slipway-store keeps the volumes of one Nomad node. The Nomad plugin runs it as a job on every node.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/slipway-run/slipway/plugins/nomad/store"
)

var version = "dev" // set by the linker

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := store.Command(ctx, version, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
