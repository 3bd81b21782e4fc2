package shim

import (
	"encoding/base64"
	"encoding/json"

	"github.com/slipway-run/slipway/sdk"
)

// Root is what the program makes for a container of a runtime that gives it none, in a mount namespace of the container's own: volumes are mounted in it, of which
// the machine sees nothing. For that the program must be root on the machine, from Linux 5.6 on. It isolates nothing: processes, network and devices are
// the machine's, and so is what the root shows of it.
type Root struct {
	// Image is a directory of the machine that becomes the root, and is written to; /proc, /sys, /dev, and the files hosts and resolv.conf in /etc, are the machine's.
	// Empty: the root shows what is in the machine's, and what is made right in it, or in a directory that was made for a mount, is the container's own.
	Image string
	// Mounts are made the outer before the inner. Links in targets are followed within the root, and directories are made where they are missing, in the container's
	// root or in a volume that is writable, never on the machine.
	Mounts []RootMount
}

// RootMount is a volume's directory on the machine, and the path of the root where it is mounted.
type RootMount struct {
	Source, Target string
	ReadOnly       bool
}

// Serve gives the arguments with which the program keeps a container, as "serve SCRATCH" does, in such a root. SCRATCH/root becomes part of the root, and goes
// with the scratch volume. Where the root cannot be made the program stays, and [Driver.Ready] says why: Unsupported where it may not mount, Invalid where
// nothing can be mounted at a target, else FailedPrecondition. The container must then be destroyed.
func (r Root) Serve(scratch string) ([]string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, sdk.NewInternal(err, "shim: a container's root: %v", err)
	}
	return []string{"root", base64.StdEncoding.EncodeToString(text), "serve", scratch}, nil
}
