package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/config"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// begin ends the plugins that go, gives those that have changed another process, and starts those that are new, side by side. It tells whose process was started
// anew for another reason than its own block.
func (r *reload) begin(ctx context.Context, next *config.Config) (restarted map[string]string) {
	restarted = make(map[string]string)
	var work []func() // begun once all of it is known, for a part that fails changes what is wanted
	for _, p := range r.h.allPlugins() {
		if r.frozen[p.cfg.Name] || !p.differs(next) {
			continue
		}
		c, stays := pluginOf(next, p.cfg.Name)
		switch {
		case !stays:
		case p.proc.State().Failing():
			restarted[c.Name] = "it did not run"
		case sameProgram(p.cfg, c) && sameBody(p.cfg.Body, c.Body, p.proc.State().Info.PluginSchema):
			restarted[c.Name] = "its workers have changed"
		}
		work = append(work, func() {
			if !stays {
				r.end(ctx, p, next)
				return
			}
			r.replace(ctx, p, c, next)
		})
	}
	for _, c := range next.Plugins {
		if r.h.plugin(c.Name) != nil {
			continue
		}
		work = append(work, func() {
			p := r.h.newPlugin(next, c)
			p.late = true
			if err := r.h.put(nil, p); err != nil {
				return // the host closes
			}
			if err := p.outcome(ctx); err != nil {
				r.fail(c.Name, "it is new, and tried again now and then: "+err.Error())
			}
		})
	}
	var each sync.WaitGroup
	for _, f := range work {
		each.Go(f)
	}
	each.Wait()
	return restarted
}

// end ends a plugin, and forgets the workers that another configuration does not have.
func (r *reload) end(ctx context.Context, p *plugin, next *config.Config) {
	done := r.h.waits.on(p.toEnd)
	err := p.halt(ctx)
	done()
	if err != nil {
		r.h.log.Error("a plugin's process could not be ended, and is left behind", "plugin", p.cfg.Name, "error", err)
	}
	for _, b := range p.blocks.Load().list {
		if _, stays := workerOf(next, b.Name); !stays {
			r.h.takeOut(ctx, b.Name)
		}
	}
}

// replace puts a plugin of another block in a plugin's place, and that back if the other does not run, or its workers are not those that they were.
func (r *reload) replace(ctx context.Context, p *plugin, c config.Plugin, next *config.Config) {
	t, err := r.newTrial(ctx, p, c, next)
	if err != nil {
		r.freeze(c.Name)
		r.fail(c.Name, err.Error())
		return
	}
	ran := !p.proc.State().Failing()
	r.end(ctx, p, next)
	t.begin()
	defer t.end() // as far as it was not accepted
	n := r.h.newPlugin(next, c)
	n.late = p.isKnown()
	n.trial.Store(ran)
	if r.h.put(p, n) != nil {
		return
	}
	done := r.h.waits.on(n.toStart)
	err = tried(ctx, n.proc, 1)
	done()
	var obstacle error
	if err == nil {
		done := r.h.waits.on(t.toTell)
		obstacle = t.outcome(ctx, r.h.trialPatience())
		done()
	}
	if ctx.Err() != nil {
		return // the host closes
	}
	switch {
	case obstacle != nil:
		why := obstacle.Error()
		if now := r.putBack(ctx, n, p.cfg, t); now != nil && ran {
			why += fmt.Sprintf("; but it does not run any more as it was: %v", now)
		}
		r.tell(Change{What: worded("plugin", c.Name), Kind: ChangeRefused, Why: why})
		return
	case err != nil && ran:
		why := fmt.Sprintf("it goes on with the settings that it had: %v", err)
		if now := r.putBack(ctx, n, p.cfg, t); now != nil {
			why = fmt.Sprintf("neither does it run as it is to be (%v), nor as it was: %v", err, now)
		}
		r.fail(c.Name, why)
		return
	}
	t.accept()
	for _, w := range t.workers { // before anything of one that is away is given up
		if w.connection() == nil {
			r.h.doubt(ctx, w)
		}
	}
	n.trial.Store(false)
	if err == nil {
		err = n.toldAll(ctx)
	}
	if err != nil {
		r.fail(c.Name, err.Error())
	}
}

// putBack gives a plugin the block again that it had, and tells why it does not run with that, as far as it does not.
func (r *reload) putBack(ctx context.Context, n *plugin, old config.Plugin, t *trial) error {
	r.end(ctx, n, r.old)
	t.end()
	r.freeze(old.Name)
	back := r.h.newPlugin(r.old, old)
	back.late = n.late
	if err := r.h.put(n, back); err != nil {
		return err
	}
	return back.outcome(ctx)
}

// put starts a plugin, in the place of another if there was one.
func (h *Host) put(was, p *plugin) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	var known []string
	for name := range h.strangers {
		if _, ok := p.block(name); ok { // it is back
			known = append(known, name)
		}
	}
	for _, name := range known {
		delete(h.strangers, name)
	}
	p.beginLocked(known)
	if i := slices.Index(h.plugins, was); i >= 0 {
		h.plugins[i] = p
		was.forget()
	} else {
		h.plugins = append(h.plugins, p)
	}
	return nil
}

// arrange puts the plugins in the order of a configuration, without those that it does not have.
func (h *Host) arrange(cfg *config.Config) []*plugin {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*plugin
	for _, c := range cfg.Plugins {
		for _, p := range h.plugins {
			if p.cfg.Name == c.Name {
				out = append(out, p)
			}
		}
	}
	for _, p := range h.plugins {
		if !slices.Contains(out, p) {
			p.forget()
		}
	}
	h.plugins = out
	return slices.Clone(out)
}

func (h *Host) plugin(name string) *plugin {
	for _, p := range h.allPlugins() {
		if p.cfg.Name == name {
			return p
		}
	}
	return nil
}

func (p *plugin) isKnown() bool {
	select {
	case <-p.known:
		return true
	default:
		return false
	}
}

// setBlocks takes what a configuration says of the plugin's workers that concerns only the host, and which of them the one that was wanted does not have.
func (p *plugin) setBlocks(cfg, wanted *config.Config) {
	blocks := blocksOf(cfg, p.cfg.Name)
	blocks.unwanted = make(map[string]bool)
	for _, b := range blocks.list {
		if _, is := workerOf(wanted, b.Name); !is {
			blocks.unwanted[b.Name] = true
		}
	}
	p.blocks.Store(blocks)
	for _, w := range p.h.sortedWorkers() {
		if b, ok := p.block(w.name); ok && w.plugin == p.cfg.Name {
			w.setBlock(blockOf(b), blocks.unwanted[b.Name])
		}
	}
}

// outcome waits until it is known how the plugin's workers are, or until it is clear that it does not run.
func (p *plugin) outcome(ctx context.Context) error {
	done := p.h.waits.on(p.toStart)
	err := tried(ctx, p.proc, 1)
	done()
	if err != nil {
		return err
	}
	return p.toldAll(ctx)
}

// toldAll waits until it is known how the workers of a plugin are that runs.
func (p *plugin) toldAll(ctx context.Context) error {
	defer p.h.waits.on(p.toTell)()
	enough := time.NewTimer(firstWorkers)
	defer enough.Stop()
	select {
	case <-p.known:
	case <-enough.C: // it runs, and its workers are told when they are
	case <-ctx.Done():
	}
	return ctx.Err()
}

// tried waits until a process of that epoch or a later one is ready, or the first such has failed.
func tried(ctx context.Context, of interface {
	Changes() <-chan struct{}
	State() launch.Report
}, epoch uint64) error {
	for {
		changed := of.Changes()
		switch r := of.State(); {
		case r.Epoch < epoch:
		case r.State.Runs():
			return nil
		case r.State.Failed():
			return r.Err
		case r.State == launch.StateStopping || r.State == launch.StateStopped:
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takeOut forgets the workers of a block that the configuration has no more, on which nothing was. Should something be there now, it stays recorded.
func (h *Host) takeOut(ctx context.Context, block string) {
	for _, w := range h.sortedWorkers() {
		if w.name != block && w.name[:max(lastSlash(w.name), 0)] != block {
			continue
		}
		w.ordering.Lock()
		if w.drain != nil {
			w.drain.stop()
			w.drain = nil
		}
		w.ordering.Unlock()
		has, err := h.forgetUnused(ctx, w.name)
		if err != nil && ctx.Err() == nil {
			h.log.Warn("the record of a worker that the configuration has no more stays", "worker", w.name, "error", err)
		}
		h.mu.Lock()
		if h.workers[w.name] == w {
			delete(h.workers, w.name)
			h.entries[w.plugin]--
		}
		if o := w.ordered(); o.lasting() || has {
			h.ordered[w.name] = o // it has them again if it is put back
		} else {
			delete(h.ordered, w.name)
		}
		if has {
			h.strangers[w.name] = h.clock.wall()
		}
		h.mu.Unlock()
		w.setDead(&sdk.Error{Class: sdk.NotFound, Kind: sdk.KindWorker, ID: w.name, Message: fmt.Sprintf("worker %s was taken out of the configuration", w.name)})
		w.setRemoved()
		h.tellPlacement(w)
		h.dropReconciler(w.name)
	}
}
