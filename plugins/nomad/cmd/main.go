// Command slipway-nomad is a plugin that runs containers on the nodes of a Nomad cluster and keeps volumes there.
package main

import (
	"github.com/slipway-run/slipway/plugins/nomad"
	"github.com/slipway-run/slipway/sdk/rpc"
)

func main() { rpc.Serve(nomad.Plugin()) }
