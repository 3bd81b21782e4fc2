// Command slipway-shim runs in a container and keeps its processes, for runtimes that can only execute a command there. People do not
// call it; package sdk/shim does.
//
//	slipway-shim serve SCRATCH   keep the container's processes, as its own command
//	slipway-shim root ROOT serve SCRATCH    the same in a root of the container's own
//	slipway-shim init SCRATCH    the same in the background, and relay
//	slipway-shim relay SCRATCH   connect stdin and stdout with the keeper
//	slipway-shim in | out        unpack or pack an archive
//	slipway-shim pause           do nothing, as a container's own command that needs nothing of the image
//	slipway-shim text VERB ...   the same with a stdin of lines of base64
//	slipway-shim version
package main

import (
	"fmt"
	"os"
)

var version = "dev" // set by the linker

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-shim:", err)
		os.Exit(1)
	}
}
