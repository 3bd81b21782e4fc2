package host

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/sdk"
)

// ChangeKind is what became of a part of the configuration.
type ChangeKind string

// The kinds.
const (
	ChangeAdded     ChangeKind = "added"
	ChangeChanged   ChangeKind = "changed"
	ChangeRemoved   ChangeKind = "removed"
	ChangeRestarted ChangeKind = "restarted" // a plugin's process, for it is told other workers, or did not run
	ChangeRefused   ChangeKind = "refused"   // it stays as it was, since something of it is used
	ChangeLater     ChangeKind = "later"     // it needs a restart of the host, and stays as it was until then
	ChangeFailed    ChangeKind = "failed"    // it was tried, and does not work
)

// Change is what became of a part of the configuration that differs.
type Change struct {
	What string // such as plugin "garden", worker "big" or timing.stalled
	Kind ChangeKind
	Why  string // of what was refused, is for later or has failed: why, and what to do; else empty, or more about it
}

// String tells people of the change.
func (c Change) String() string {
	kind := string(c.Kind)
	if c.Kind == ChangeLater {
		kind = "needs a restart"
	}
	if c.Why != "" {
		return fmt.Sprintf("%s %s: %s", c.What, kind, c.Why)
	}
	return c.What + " " + kind
}

// Done tells whether what the configuration says is so now.
func (c Change) Done() bool {
	return c.Kind != ChangeRefused && c.Kind != ChangeLater && c.Kind != ChangeFailed
}

// Reload has the host go by another configuration, and tells what that came to: nothing, if it says the same as before.
//
//   - Plugins and workers that are new begin.
//   - A plugin whose settings or workers have changed has its process ended and started anew. What its workers have goes on; of a plugin with which that
//     ends, nothing is changed while something is on its workers. A plugin that does not run with its new settings is given the old ones back, and so is one of whose workers one has
//     something, and is another place with them, or does not answer any more.
//   - Workers that are there no more go. One on which something is takes no new work, and goes with the first reload that finds nothing there.
//   - All else holds from now on, but for what needs a restart of the host.
//
// What was refused, needs a restart or has failed stays as it was, and the rest is done. A configuration without workers, where there are some, or with which something is wrong, a
// *ConfigError if it is in a plugin's or a worker's own settings, changes nothing. One reload goes at a time, and each to its end: when ctx ends, only the waiting for it does.
func (h *Host) Reload(ctx context.Context, cfg *config.Config) ([]Change, error) {
	return changing(ctx, h, func(ctx context.Context) ([]Change, error) { return h.reload(ctx, cfg) })
}

// changing makes a change of settings or plugins, one at a time. When ctx ends, the change goes on.
func changing[T any](ctx context.Context, h *Host, change func(context.Context) (T, error)) (T, error) {
	var none, out T
	var failure error
	done := make(chan struct{})
	err := h.spawn(func() {
		defer close(done)
		h.changing.Lock()
		defer h.changing.Unlock()
		if failure = ErrClosed; h.ctx.Err() == nil {
			out, failure = change(h.ctx)
		}
	})
	if err != nil {
		return none, err
	}
	select {
	case <-done:
		return out, failure
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// errNoWorkers: what is left of a file that somebody writes at this moment, or of a wrong one, says that nothing shall run any more.
var errNoWorkers = sdk.NewInvalid(sdk.ReasonConfig, "the configuration has no workers, so that nothing could run: nothing was changed; a host that shall have none has to be started so")

func (h *Host) reload(ctx context.Context, cfg *config.Config) ([]Change, error) {
	policy, err := pool.ParsePolicy(cfg.Placement.Build, cfg.Placement.NoInput, cfg.Placement.Check)
	if err != nil {
		return nil, err
	}
	if len(cfg.Workers) == 0 && len(h.cfg().Workers) > 0 {
		return nil, errNoWorkers
	}
	if err := h.checkBlocks(ctx, cfg); err != nil {
		return nil, err
	}
	r := &reload{h: h, old: h.cfg(), wanted: cfg, kept: make(map[string]bool), frozen: make(map[string]bool), failed: make(map[string]bool)}
	defer r.letGo()
	if err := r.decide(ctx); err != nil {
		return nil, err
	}
	next := r.effective()
	h.settings.config.Store(next) // new workers begin with its graces
	restarted := r.begin(ctx, next)
	next = r.effective() // without what has failed
	h.settings.config.Store(next)
	for _, p := range h.arrange(next) {
		p.setBlocks(next, cfg)
	}
	if err := h.obey(policy, r.old, next); err != nil {
		return nil, err
	}
	return slices.Concat(r.differences(next, restarted), r.changes, settingsChanged(r.old, next), settingsLater(next, cfg)), nil
}

// obey brings what was made of settings in line with others.
func (h *Host) obey(policy pool.Policy, old, next *config.Config) error {
	p := next.Placement
	if !reflect.DeepEqual(old.Placement, p) {
		if err := h.queue.SetRules(policy, pool.Options{Limits: pool.Limits(p.Limits), WaitLimit: p.WaitLimit, MaxPassed: p.MaxPassed}); err != nil {
			return err
		}
		h.turns.set(hostTurns(p.Steps))
	}
	if old.Reaping.KeepFailed != next.Reaping.KeepFailed {
		h.settings.keepFailed.Store(next.Reaping.KeepFailed)
	}
	h.blobs.limit(h.blobLimits())
	h.roomOnDisk()
	for _, w := range h.sortedWorkers() {
		w.graces.Store(h.graces())
		h.tellPlacement(w)
	}
	h.settings.tell()
	return nil
}

// reload is one change of the configuration.
type reload struct {
	h           *Host
	old, wanted *config.Config
	kept        map[string]bool // workers that stay as they were
	frozen      map[string]bool // plugins that stay as they were, with their workers

	held []*worker // nothing is placed on them while it is decided what becomes of them

	mu      sync.Mutex
	failed  map[string]bool // plugins that do not run
	changes []Change
}

// fail tells that a plugin does not run.
func (r *reload) fail(plugin, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[plugin] = true
	r.changes = append(r.changes, Change{What: worded("plugin", plugin), Kind: ChangeFailed, Why: why})
}

// freeze has a plugin stay as it was.
func (r *reload) freeze(plugin string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen[plugin] = true
}

func (r *reload) tell(c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, c)
}

// hold keeps new work from the workers of a block, and gives them.
func (r *reload) hold(block string) (all []*worker) {
	for _, w := range r.h.sortedWorkers() {
		if w.name == block || w.name[:max(lastSlash(w.name), 0)] == block {
			r.holdBack(w)
			all = append(all, w)
		}
	}
	return all
}

// holdBack keeps new work from a worker until the reload ends.
func (r *reload) holdBack(w *worker) {
	w.hold("the configuration is read anew")
	r.h.tellPlacement(w)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = append(r.held, w)
}

func (r *reload) letGo() {
	for _, w := range r.held {
		w.hold("")
		if now, err := r.h.worker(w.name); err == nil && now == w {
			r.h.tellPlacement(w)
		}
	}
}

// effective is the configuration that is wanted, but for what stays as it was.
func (r *reload) effective() *config.Config {
	out := *r.wanted
	out.Reaping.OutputSize = r.old.Reaping.OutputSize // of the spool, which is open
	out.Workers, out.Plugins = nil, nil
	needed := make(map[string]bool)
	for _, w := range r.wanted.Workers {
		before, was := workerOf(r.old, w.Name)
		switch {
		case r.kept[w.Name]:
			w = before
		case r.frozen[w.Plugin] && !was:
			continue
		case r.frozen[w.Plugin]: // what concerns only the host
			w.Body, w.Range = before.Body, before.Range
		}
		needed[w.Plugin] = true
		out.Workers = append(out.Workers, w)
	}
	for _, w := range r.old.Workers {
		if _, is := workerOf(r.wanted, w.Name); !is && (r.kept[w.Name] || r.frozen[w.Plugin]) {
			needed[w.Plugin] = true
			out.Workers = append(out.Workers, w)
		}
	}
	for _, p := range r.wanted.Plugins {
		if before, was := pluginOf(r.old, p.Name); was && r.frozen[p.Name] {
			p = before
		}
		out.Plugins = append(out.Plugins, p)
	}
	for _, p := range r.old.Plugins {
		if _, is := pluginOf(r.wanted, p.Name); !is && needed[p.Name] {
			out.Plugins = append(out.Plugins, p)
		}
	}
	return &out
}

func workerOf(cfg *config.Config, name string) (config.Worker, bool) {
	i := slices.IndexFunc(cfg.Workers, func(b config.Worker) bool { return b.Name == name })
	if i < 0 {
		return config.Worker{}, false
	}
	return cfg.Workers[i], true
}

func pluginOf(cfg *config.Config, name string) (config.Plugin, bool) {
	i := slices.IndexFunc(cfg.Plugins, func(b config.Plugin) bool { return b.Name == name })
	if i < 0 {
		return config.Plugin{}, false
	}
	return cfg.Plugins[i], true
}
