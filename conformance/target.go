package conformance

import (
	"context"
	"slices"

	"github.com/slipway-run/slipway/sdk"
)

// Target is what is tested.
type Target struct {
	Name   string // for reports
	Worker string // empty: the first one that the runtime reports
	Peer   string // the one that streams from worker to worker go to; empty: the first other one that can, in the same zone

	// Open makes the runtime usable; ctx bounds that alone. It is called once for the run, and again by each case that wants an instance of its own,
	// which must then see the same volumes and containers if they are kept anywhere outside of the plugin.
	Open func(ctx context.Context) (*Instance, error)

	Commands Commands // what containers run: Shell, which is the default, or a Probe
	// Probe is for the cases that need the suite's own program where Commands is another. Its zero value is none.
	Probe    Probe
	Image    sdk.Image // of every container
	Local    bool      // the plugin runs on this machine ([EnvLocal])
	Bare     bool      // Commands need nothing in a container's root ([EnvBare])
	CanCrash bool      // instances have Crash ([EnvCrash])
	Program  *Program  // the plugin's program ([EnvProgram]); nil: there is none
	Given    Given     // what an operator has made ready for the cases that ask for it
	// Away takes the server behind the worker away, as when its machine is cut off, until back is called. Nil: there is none, or none that can be taken.
	Away func(ctx context.Context) (back func() error, err error)
}

// Given is what only a worker's operator knows: no plugin tells it, so whoever tests one has to. Its zero value is nothing.
type Given struct {
	// ImageRef is a reference that the worker's runtime has an image by, and ImageFile the absolute path of a file there that containers without that
	// image lack, or have with other content.
	ImageRef, ImageFile string
	// Import is a path on the worker that may be imported, of a tree that holds something. It is read only, unless the plugin is at fault.
	Import string
}

// probe gives the suite's own program, where there is one.
func (t Target) probe() (p Probe, ok bool) {
	if p, ok = t.Commands.(Probe); ok {
		return p, true
	}
	return t.Probe, len(t.Probe.program) > 0
}

// byProbe tells whether a case runs the suite's own program.
func (t Target) byProbe(kase Case) bool {
	if _, always := t.Commands.(Probe); always {
		return true
	}
	_, there := t.probe()
	return there && (slices.Contains(kase.Env, EnvProbe) || slices.Contains(kase.Env, EnvProbeLinux) || slices.Contains(kase.Env, EnvBare) && !t.Bare)
}

// Instance is an opened target.
type Instance struct {
	Runtime sdk.Runtime
	// Close frees it. What was made on its workers stays.
	Close func()
	// PID is the number of the plugin's process on this machine; nil: there is none, or none that is known.
	PID func() int
	// Ended waits for the end of the plugin's process, or that of ctx, and tells in words how it ended; empty: it still runs. Nil: nobody knows.
	Ended func(ctx context.Context) string
	// Said is what the plugin has written to stderr last. Nil: nobody knows.
	Said func() string
	// Crash ends the plugin as SIGKILL does and gives the runtime of its next start. Nil: it cannot be done.
	Crash func(ctx context.Context) (sdk.Runtime, error)
}

// InProcess tests a runtime of this process. It stays the caller's to close.
func InProcess(rt sdk.Runtime, worker string) Target {
	return Opened("in process", worker, func(context.Context) (sdk.Runtime, func(), error) { return rt, func() {}, nil })
}

// Opened tests whatever open gives, by [sdk.Checked], as hosts call a runtime; the function that comes with it frees it.
func Opened(name, worker string, open func(context.Context) (sdk.Runtime, func(), error)) Target {
	return Target{Name: name, Worker: worker, Local: true, Open: func(ctx context.Context) (*Instance, error) {
		rt, free, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return &Instance{Runtime: sdk.Checked(rt), Close: free}, nil
	}}
}
