package conformance

import (
	"context"

	"github.com/slipway-run/slipway/sdk"
)

// Target is what is tested.
type Target struct {
	Name   string // for reports
	Worker string // empty: the first one that the runtime reports

	// Open makes the runtime usable; ctx bounds that alone. It is called once for the run, and again by each case that wants an instance of its own,
	// which must then see the same volumes and containers if they are kept anywhere outside of the plugin.
	Open func(ctx context.Context) (*Instance, error)

	Commands Commands  // what containers run; nil: Shell
	Image    sdk.Image // of every container
	Local    bool      // the plugin runs on this machine ([EnvLocal])
	Bare     bool      // Commands need nothing in a container's root ([EnvBare])
	CanCrash bool      // instances have Crash ([EnvCrash])

	// Linux says that Commands.Script works: containers run real Linux processes, as root unless a user is asked for, that see each other in /proc
	// and no other container's, and have the programs of a small system, such as busybox's ([EnvLinux]). Root may write to /etc.
	Linux bool
}

// Instance is an opened target.
type Instance struct {
	Runtime sdk.Runtime
	// Close frees it. What was made on its workers stays.
	Close func()
	// Crash ends the plugin as SIGKILL does and gives the runtime of its next start. Nil: it cannot be done.
	Crash func(ctx context.Context) (sdk.Runtime, error)
}

// InProcess tests a runtime of this process. It stays the caller's to close.
func InProcess(rt sdk.Runtime, worker string) Target {
	return Opened("in process", worker, func(context.Context) (sdk.Runtime, func(), error) { return rt, func() {}, nil })
}

// Opened tests whatever open gives; the function that comes with it frees it.
func Opened(name, worker string, open func(context.Context) (sdk.Runtime, func(), error)) Target {
	return Target{Name: name, Worker: worker, Local: true, Open: func(ctx context.Context) (*Instance, error) {
		rt, free, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return &Instance{Runtime: rt, Close: free}, nil
	}}
}
