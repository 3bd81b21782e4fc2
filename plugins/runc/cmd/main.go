//go:build linux

// Command slipway-runc is a plugin that runs containers on its own machine by runc.
package main

import (
	"github.com/slipway-run/slipway/plugins/runc"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() { rpc.Serve(runc.Plugin()) }
