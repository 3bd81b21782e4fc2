// Command slipway-garden is a plugin that runs containers on a Garden server and keeps volumes on the Baggageclaim server beside it.
package main

import (
	"runtime/debug"

	"github.com/slipway-run/slipway/plugins/garden"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() {
	// Much of what it holds are the buffers of processes that are followed, and streams bring short-lived ones: collecting those earlier costs little, and
	// keeps it a third smaller.
	debug.SetGCPercent(50)
	rpc.Serve(garden.Plugin())
}
