package host

import (
	"context"
	"time"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// process keeps the sessions of a plugin: a launch.Plugin, or a runtime inside this program.
type process interface {
	Session(ctx context.Context) (*launch.Session, error)
	Changes() <-chan struct{}
	State() launch.Report
	Stop(ctx context.Context) error
	// Restart ends the process and starts it anew, without waiting. It tells whether there is a process.
	Restart() bool
}

// launched is a process of the plugin's own.
type launched struct{ *launch.Plugin }

func (l launched) Restart() bool {
	l.Plugin.Restart()
	return true
}

// inProcess is a runtime of this program itself. It has one session, which never ends.
type inProcess struct {
	name    string
	session *launch.Session
	since   time.Time
}

func newInProcess(name string, rt sdk.Runtime) *inProcess {
	return &inProcess{name: name, session: &launch.Session{Epoch: 1, Runtime: sdk.Checked(rt)}, since: time.Now()}
}

func (p *inProcess) Session(context.Context) (*launch.Session, error) { return p.session, nil }
func (p *inProcess) Changes() <-chan struct{}                         { return nil }
func (p *inProcess) Stop(context.Context) error                       { return nil }
func (p *inProcess) Restart() bool                                    { return false }

func (p *inProcess) State() launch.Report {
	return launch.Report{Name: p.name, State: launch.StateReady, Since: p.since, Epoch: 1, Info: p.session.Info}
}
