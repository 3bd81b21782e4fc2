package host

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// plugin is one plugin block: its process, and the workers that it tells. Where its process has to be given other settings, another takes its place.
type plugin struct {
	h      *Host
	cfg    config.Plugin
	dir    string                 // of the configuration's file
	blocks atomic.Pointer[blocks] // of its workers
	proc   process
	late   bool          // it was begun while others knew already what there is: nobody waits for it
	trial  atomic.Bool   // another is put back in its place unless it runs: its workers are not dead yet if it does not
	halted chan struct{} // closed when it is to end though the host goes on
	ended  chan struct{} // closed when nothing of it goes on but its process, perhaps

	told     chan struct{} // closed once the plugin has told which workers it has
	toldOne  sync.Once
	known    chan struct{} // closed once it is known what the plugin has, or why not
	knownOne sync.Once
}

// startPlugins is given the workers that the state directory knows of: what is on them can be waited for before a plugin has told them.
func (h *Host) startPlugins(known []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.cfg().Plugins {
		p := h.newPlugin(h.cfg(), c)
		p.beginLocked(known)
		h.plugins = append(h.plugins, p)
	}
}

// newPlugin makes a plugin of a block. It does nothing yet.
func (h *Host) newPlugin(cfg *config.Config, c config.Plugin) *plugin {
	p := &plugin{h: h, cfg: c, dir: cfg.Dir(), halted: make(chan struct{}), ended: make(chan struct{}), told: make(chan struct{}), known: make(chan struct{})}
	p.blocks.Store(blocksOf(cfg, c.Name))
	return p
}

// beginLocked starts the plugin. It is given workers that are known of already. The host's lock is held.
func (p *plugin) beginLocked(known []string) {
	for _, b := range p.blocks.Load().list {
		p.workerLocked(b.Name)
	}
	for _, name := range known {
		if _, ok := p.block(name); ok {
			p.workerLocked(name)
		}
	}
	p.proc = p.start()
	p.h.tasks.Go(p.run)
}

// blocks are those of a plugin's workers, in the order of the configuration. They are not changed.
type blocks struct {
	list     []config.Worker
	byName   map[string]config.Worker
	unwanted map[string]bool // the operator has taken them out of the configuration, and they stay until nothing is there
}

func blocksOf(cfg *config.Config, plugin string) *blocks {
	out := &blocks{byName: make(map[string]config.Worker)}
	for _, b := range cfg.Workers {
		if b.Plugin == plugin {
			out.list = append(out.list, b)
			out.byName[b.Name] = b
		}
	}
	return out
}

func (p *plugin) start() process {
	if rt := p.h.opts.Runtimes[p.cfg.Name]; rt != nil {
		return newInProcess(p.cfg.Name, rt)
	}
	return launched{launch.Start(p.spec(p.configure), p.h.launchOptions())}
}

func (p *plugin) spec(configure func(context.Context, sdk.PluginInfo) (sdk.Block, []sdk.Block, error)) launch.Spec {
	return launch.Spec{Name: p.cfg.Name, Command: p.cfg.Command, Dir: p.dir, Args: p.cfg.Args, Env: p.cfg.Env, SHA256: p.cfg.SHA256, Configure: configure}
}

func (h *Host) launchOptions() launch.Options {
	opts := h.opts.Launch
	opts.HostInfo = sdk.HostInfo{Version: h.opts.Version, Installation: h.Installation()}
	opts.Logger = h.log
	return opts
}

// configure checks the operator's blocks against the schemas that the plugin told.
func (p *plugin) configure(_ context.Context, info sdk.PluginInfo) (sdk.Block, []sdk.Block, error) {
	values, diags := config.Decode(p.cfg.Body, info.PluginSchema, p.cfg.Range)
	block := sdk.Block{Name: p.cfg.Name, Values: values}
	var workers []sdk.Block
	for _, b := range p.blocks.Load().list {
		values, d := config.Decode(b.Body, info.WorkerSchema, b.Range)
		diags = append(diags, d...)
		workers = append(workers, sdk.Block{Name: b.Name, Values: values})
	}
	if diags.HasErrors() {
		return sdk.Block{}, nil, &ConfigError{Plugin: p.cfg.Name, Diagnostics: diags}
	}
	return block, workers, nil
}

// halt ends the plugin, and waits until nothing of it goes on. What its workers have goes on, as far as it outlives the plugin's process; they are away.
func (p *plugin) halt(ctx context.Context) error {
	close(p.halted)
	err := p.proc.Stop(ctx)
	<-p.ended
	return err
}

// forget ends the waiting for what the plugin has, once another is in its place, or none.
func (p *plugin) forget() { p.knownOne.Do(func() { close(p.known) }) }

func (p *plugin) isHalted() bool {
	select {
	case <-p.halted:
		return true
	default:
		return false
	}
}

// block is that of a worker, or that whose node it is.
func (p *plugin) block(worker string) (b config.Worker, ok bool) {
	blocks := p.blocks.Load().byName
	if b, ok = blocks[worker]; ok {
		return b, true
	}
	if i := lastSlash(worker); i >= 0 {
		b, ok = blocks[worker[:i]]
	}
	return b, ok
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}
