package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

	Launch launch.Options // its zero value is right for use: the suite has times of its own, and starts a plugin that does not come up once
}

// Command tests a plugin as a host runs it: a process of its own, started for the run and for each case that crashes it, and
// always ended. What that process keeps to itself alone is not seen from the next one.
func Command(p Program) Target {
	return Target{Name: p.Path, Local: true, CanCrash: true, Program: &p, Open: p.open}
}

const (
	// stopTimeout bounds the end of a plugin's process.
	stopTimeout = 30 * time.Second

	// These are instead of launch's own: a test may run on a machine that has a lot else to do, and a case has its own time; but whoever writes a plugin
	// wants to know at once that it does not start. All times follow [Options.TimeScale].
	startTimeout     = 10 * time.Second
	configureTimeout = 2 * time.Minute
	healthMisses     = 8
	startsTried      = 1
)

// patient gives a plugin the suite's times where the caller has named none. It is asked for what no host asks for.
func patient(o launch.Options, scale float64) launch.Options {
	o.Unchecked = true // what a plugin refuses is for it to refuse
	if o.StartTimeout <= 0 {
		o.StartTimeout = longer(startTimeout, scale)
	}
	if o.OpenAfter <= 0 {
		o.OpenAfter = startsTried
	}
	if o.ConfigureTimeout <= 0 {
		o.ConfigureTimeout = longer(configureTimeout, scale)
	}
	if o.HealthMisses <= 0 {
		o.HealthMisses = int(math.Ceil(healthMisses * max(1, scale)))
	}
	return o
}

// longer is a time that is not of a case's own: what makes cases short does not make it short.
func longer(d time.Duration, scale float64) time.Duration {
	return time.Duration(float64(d) * max(1, scale))
}

// scaleKey is of the context that a target is opened with: it holds [Options.TimeScale].
type scaleKey struct{}

func withScale(ctx context.Context, scale float64) context.Context {
	return context.WithValue(ctx, scaleKey{}, scale)
}

func scaleOf(ctx context.Context) float64 {
	if scale, ok := ctx.Value(scaleKey{}).(float64); ok {
		return scale
	}
	return 1
}

func (p Program) open(ctx context.Context) (*Instance, error) {
	if len(p.Workers) == 0 {
		return nil, errors.New("no worker is configured on the plugin")
	}
	plugin := launch.Start(launch.Spec{
		Name: p.Plugin.Name, Command: p.Path, Dir: p.Dir, Args: p.Args, Env: p.Env,
		Configure: func(_ context.Context, info sdk.PluginInfo) (sdk.Block, []sdk.Block, error) { return p.settings(info) },
	}, patient(p.Launch, scaleOf(ctx)))
	stop := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longer(stopTimeout, scaleOf(ctx)))
		defer cancel()
		plugin.Stop(ctx) // what outlives SIGKILL is in launch's log
	}
	session, err := plugin.Session(ctx)
	if err != nil {
		stop()
		return nil, p.tooSlow(err)
	}
	pid := func() int { return plugin.State().PID }
	return &Instance{
		Runtime: session.Runtime, Close: stop, PID: pid, Said: plugin.Said,
		Ended: func(ctx context.Context) string { return ended(ctx, plugin) },
		Crash: func(ctx context.Context) (sdk.Runtime, error) {
			rt, err := crash(ctx, plugin)
			return rt, p.tooSlow(err)
		},
	}, nil
}

// tooSlow adds to the error of a plugin that did not get ready in the suite's time how much that is and how to give more. Other errors it leaves
// as they are.
func (p Program) tooSlow(err error) error {
	if !errors.Is(err, launch.ReasonSilent) || p.Launch.StartTimeout > 0 || p.Launch.ConfigureTimeout > 0 {
		return err
	}
	return fmt.Errorf("the suite gives a plugin %v to start and %v to be configured, times --time-scale (in Go Options.TimeScale), where a host gives 30s for each; "+
		"raise that if the plugin is only slow; was its handshake line flushed, with its end of line? %w", startTimeout, configureTimeout, err)
}

// ended waits until there is something to be said of a plugin's end.
func ended(ctx context.Context, plugin *launch.Plugin) string {
	for {
		changed := plugin.Changes()
		r := plugin.State()
		switch {
		case r.Err != nil:
			return r.Err.Error()
		case r.LastExit != nil:
			return r.LastExit.String()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ""
		}
	}
}

// settings are the blocks with the defaults of the plugin's schemas filled in, as a host fills them in.
func (p Program) settings(info sdk.PluginInfo) (sdk.Block, []sdk.Block, error) {
	plugin, err := withDefaults(p.Plugin, info.PluginSchema)
	if err != nil {
		return sdk.Block{}, nil, err
	}
	workers := make([]sdk.Block, len(p.Workers))
	for i, w := range p.Workers {
		if workers[i], err = withDefaults(w, info.WorkerSchema); err != nil {
			return sdk.Block{}, nil, err
		}
	}
	return plugin, workers, nil
}

func withDefaults(b sdk.Block, s sdk.Schema) (sdk.Block, error) {
	values := make(map[string]json.RawMessage)
	if len(b.Values) > 0 {
		if err := json.Unmarshal(b.Values, &values); err != nil {
			return b, fmt.Errorf("settings of %q: want an object: %w", b.Name, err)
		}
	}
	for _, f := range s.Fields {
		if _, ok := values[f.Name]; ok || f.Default == "" {
			continue
		}
		text := f.Default
		switch f.Type {
		case sdk.TypeString, sdk.TypeDuration, sdk.TypeBytes:
			quoted, err := json.Marshal(text)
			if err != nil {
				return b, err
			}
			text = string(quoted)
		}
		values[f.Name] = json.RawMessage(text) // the others are written as in JSON
	}
	var err error
	b.Values, err = json.Marshal(values)
	return b, err
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
	plugin.Restart() // at once, however often: that it ended was not its own doing
	next, err := plugin.Session(ctx)
	if err != nil {
		return nil, err
	}
	return next.Runtime, nil
}
