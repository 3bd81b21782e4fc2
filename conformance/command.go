package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// Program is a plugin's program and its settings.
type Program struct {
	Path string // with a slash, relative to Dir; else sought as launch.Resolve says
	Dir  string // its working directory; empty: this process's
	Args []string
	Env  map[string]string // nothing of this process's environment is inherited

	Plugin  sdk.Block
	Workers []sdk.Block // at least one

	Launch launch.Options // its zero value is right for use
}

// Command tests a plugin as a host runs it: a process of its own, started for the run and for each case that crashes it, and
// always ended. What that process keeps to itself alone is not seen from the next one.
func Command(p Program) Target {
	return Target{Name: p.Path, Local: true, CanCrash: true, Open: p.open}
}

// stopTimeout bounds the end of a plugin's process.
const stopTimeout = 30 * time.Second

func (p Program) open(ctx context.Context) (*Instance, error) {
	if len(p.Workers) == 0 {
		return nil, errors.New("no worker is configured on the plugin")
	}
	plugin := launch.Start(launch.Spec{
		Name: p.Plugin.Name, Command: p.Path, Dir: p.Dir, Args: p.Args, Env: p.Env,
		Configure: func(context.Context, sdk.PluginInfo) (sdk.Block, []sdk.Block, error) { return p.Plugin, p.Workers, nil },
	}, p.Launch)
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		plugin.Stop(ctx) // what outlives SIGKILL is in launch's log
	}
	session, err := plugin.Session(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	return &Instance{Runtime: session.Runtime, Close: stop, Crash: func(ctx context.Context) (sdk.Runtime, error) {
		return crash(ctx, plugin)
	}}, nil
}

// crash kills the plugin's process and awaits the next session.
func crash(ctx context.Context, plugin *launch.Plugin) (sdk.Runtime, error) {
	old, err := plugin.Session(ctx)
	if err != nil {
		return nil, err
	}
	proc, err := os.FindProcess(plugin.State().PID)
	if err != nil {
		return nil, err
	}
	if err := proc.Kill(); err != nil {
		return nil, fmt.Errorf("killing the plugin's process: %w", err)
	}
	select {
	case <-old.Gone:
	case <-ctx.Done():
		return nil, fmt.Errorf("the end of the plugin's process was not seen: %w", context.Cause(ctx))
	}
	next, err := plugin.Session(ctx)
	if err != nil {
		return nil, err
	}
	return next.Runtime, nil
}
