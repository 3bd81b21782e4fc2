//go:build linux

// Command slipway-runc is a plugin that runs containers on its own machine by runc.
package main

import (
	"github.com/slipway-run/slipway/examples/runc/runtime"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() { rpc.Serve(runtime.Plugin()) }
