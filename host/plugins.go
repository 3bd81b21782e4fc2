package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

const (
	// firstWorkers is how long a plugin that runs may take to tell which workers it has, before the host goes on without them. Nothing is asked
	// of a server for that, but by a plugin whose workers are a cluster's nodes: Nomad's waits for a cluster for 10 s.
	firstWorkers = 15 * time.Second
	// firstLooks is how long it may then take until it is known of each worker how it is, with what the last host left on it settled.
	firstLooks = time.Minute
)

// run goes from session to session until the host closes, or another takes its place.
func (p *plugin) run() {
	defer close(p.ended)
	for p.h.ctx.Err() == nil {
		changed := p.proc.Changes()
		s, err := p.proc.Session(p.h.ctx)
		if err != nil {
			if p.h.ctx.Err() != nil || p.isHalted() {
				return
			}
			if !p.trial.Load() {
				p.failed(err)
			}
			select {
			case <-changed:
			case <-p.h.ctx.Done():
			}
			continue
		}
		p.serve(s)
	}
}

// failed notes that no session is to be had: whoever waits for a worker of this plugin need not.
func (p *plugin) failed(err error) {
	for _, w := range p.h.sortedWorkers() {
		if w.plugin == p.cfg.Name {
			w.setDead(err)
			p.h.doubt(p.h.ctx, w)
			p.h.tellPlacement(w)
		}
	}
	p.knownOne.Do(func() { close(p.known) })
}

// serve follows the workers of one session until it ends.
func (p *plugin) serve(s *launch.Session) {
	ctx, cancel := context.WithCancel(p.h.ctx)
	defer cancel()
	var monitors sync.WaitGroup
	defer monitors.Wait()
	defer cancel()
	monitors.Go(func() {
		select {
		case <-s.Gone:
			cancel()
		case <-ctx.Done():
		}
	})
	monitors.Go(func() { p.impatient(ctx) })
	running := make(map[string]monitored)
	for ctx.Err() == nil {
		err := s.Runtime.Workers(ctx, func(e sdk.WorkerEvent) error {
			err := p.apply(ctx, s, e, running, &monitors)
			if err == nil && e.Kind == sdk.WorkerSnapshot {
				p.toldOne.Do(func() { close(p.told) })
			}
			return err
		})
		if ctx.Err() == nil && !errors.Is(err, sdk.ReasonPluginGone) { // else the session is over in a moment
			p.silent(fmt.Errorf("plugin %q stopped telling its workers, and is asked again: %w", p.cfg.Name, cmp.Or(err, errEndless)))
		}
		if ctx.Err() == nil {
			select {
			case <-time.After(statusEvery):
			case <-ctx.Done():
			}
		}
	}
	for _, w := range p.h.sortedWorkers() {
		if w.plugin == p.cfg.Name {
			away := fmt.Errorf("plugin %q is away", p.cfg.Name)
			w.unprovenNow().tell(away)
			w.setAway(nil, away)
		}
	}
}

// impatient goes on without the workers of which nothing was heard for so long, so that one plugin holds up only itself. They are taken when
// they come.
func (p *plugin) impatient(ctx context.Context) {
	for _, wait := range []struct {
		ends  <-chan struct{}
		most  time.Duration
		wants string
	}{
		{p.told, cmp.Or(p.h.opts.told, firstWorkers), "told which workers it has"},
		{p.known, cmp.Or(p.h.opts.told, firstLooks), "let it be known how each of its workers is"},
	} {
		late := time.NewTimer(wait.most)
		defer late.Stop()
		select {
		case <-late.C:
			p.silent(fmt.Errorf("plugin %q has not %s for %v: look in its log, and whether what is behind it hangs", p.cfg.Name, wait.wants, wait.most))
			return
		case <-wait.ends:
		case <-p.known:
			return
		case <-ctx.Done():
			return
		}
	}
}

// errEndless is why the end of a plugin's telling is wrong where it gives no other reason.
var errEndless = errors.New("it has to tell them for as long as it runs")

// errNotTold is why a worker is away that was told before.
var errNotTold = errors.New("its plugin does not tell it any more")

// errUntold is why a worker is away that its plugin told before it was given other settings.
var errUntold = errors.New("its plugin does not tell it with them")

// silent goes on without the workers of which nothing was heard so far, for a reason.
func (p *plugin) silent(why error) {
	p.h.log.Warn("going on without a plugin's workers until it tells them", "plugin", p.cfg.Name, "error", why)
	for _, w := range p.h.sortedWorkers() {
		if w.plugin == p.cfg.Name {
			w.unprovenNow().tell(why)
			w.setSilent(why)
			if w.connection() == nil {
				p.h.doubt(p.h.ctx, w)
			}
			p.h.tellPlacement(w)
		}
	}
	p.knownOne.Do(func() { close(p.known) })
}

// apply brings the workers in line with an event. It is called from one goroutine at a time. An event that nobody can take is an error: the plugin's defect.
func (p *plugin) apply(ctx context.Context, s *launch.Session, e sdk.WorkerEvent, running map[string]monitored, monitors *sync.WaitGroup) error {
	if e.Kind != sdk.WorkerRemove { // all of it is taken, or nothing: else who asks hears of some workers, and nothing of the defect
		for _, info := range e.Workers {
			if _, ok := p.block(info.Name); !ok {
				return sdk.NewInternal(nil, "it tells a worker %q, which is neither one of its blocks' nor a node of one", info.Name)
			}
		}
	}
	var looks sync.WaitGroup
	if e.Kind == sdk.WorkerSnapshot {
		told := make(map[string]bool, len(e.Workers))
		for _, i := range e.Workers {
			told[i.Name] = true
		}
		gone := func(name string) bool { // nobody knows which nodes a block has that is told itself
			block, _ := p.block(name)
			return !told[name] && !told[block.Name]
		}
		for name := range running {
			if gone(name) {
				p.remove(name, running)
			}
		}
		for block := range p.blocks.Load().byName {
			if !told[block] {
				p.worker(block).setNone()
			}
		}
		for _, w := range p.h.sortedWorkers() { // nodes that left while nobody told it
			if _, block := p.blocks.Load().byName[w.name]; w.plugin == p.cfg.Name && !block && gone(w.name) {
				p.left(w)
			}
		}
	}
	for _, info := range e.Workers {
		if e.Kind == sdk.WorkerRemove {
			p.remove(info.Name, running)
			continue
		}
		w, err := p.take(info)
		if err != nil {
			return err
		}
		if w.plugin != p.cfg.Name {
			p.h.log.Error("two plugins tell the same worker; the first keeps it", "worker", info.Name, "first", w.plugin, "second", p.cfg.Name)
			continue
		}
		if _, ok := running[info.Name]; ok {
			w.lookNow()
			continue
		}
		conn, err := s.Runtime.Worker(info.Name)
		if err != nil {
			w.unprovenNow().tell(err)
			w.setAway(nil, err)
			continue
		}
		wctx, cancel := context.WithCancel(ctx)
		ended := make(chan struct{})
		running[info.Name] = monitored{cancel, ended}
		w.alive()
		looks.Add(1)
		monitors.Go(func() {
			defer close(ended)
			p.h.monitor(wctx, w, conn, looks.Done)
		})
	}
	if e.Kind == sdk.WorkerSnapshot {
		for _, w := range p.h.sortedWorkers() {
			if _, ok := running[w.name]; !ok && w.plugin == p.cfg.Name {
				w.unprovenNow().tell(errUntold)
				p.untold(w)
			}
		}
		monitors.Go(func() {
			looks.Wait()
			p.knownOne.Do(func() { close(p.known) })
		})
	}
	return nil
}

// monitored is a worker of this plugin that has a monitor.
type monitored struct {
	cancel context.CancelFunc
	ended  <-chan struct{}
}

// remove takes a worker from placement. Its monitor has ended before that: it would put the worker back.
func (p *plugin) remove(name string, running map[string]monitored) {
	m, ok := running[name]
	if !ok { // not there, or another plugin's
		return
	}
	m.cancel()
	<-m.ended
	delete(running, name)
	p.left(p.worker(name))
}

// untold notes that the plugin does not tell a worker. That is no reason to give up what is recorded of it if its settings have changed: it may be told with the old ones.
func (p *plugin) untold(w *worker) {
	p.h.doubt(p.h.ctx, w)
	if w.inDoubt() {
		w.setAway(nil, errNotTold)
	}
}

// left notes that the plugin does not tell a worker any more. One that is forgotten already, since it was away for long before, goes at once.
func (p *plugin) left(w *worker) {
	p.untold(w)
	w.setRemoved()
	p.h.tellPlacement(w)
	p.h.drop(w)
}

// take notes what the plugin says of a worker, unless another plugin has it, in one step, so that none is forgotten in between. A plugin that tells ever
// other names is ended at a bound: those that it has taken back are kept for a while.
func (p *plugin) take(info sdk.WorkerInfo) (*worker, error) {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if most := cmp.Or(p.h.opts.maxWorkers, sdk.MaxWorkers); p.h.workers[info.Name] == nil && p.h.entries[p.cfg.Name] >= most {
		return nil, sdk.NewInternal(nil, "it tells more than %d workers, those counted that it has taken back and that are not forgotten yet", most)
	}
	w := p.workerLocked(info.Name)
	if w.plugin == p.cfg.Name {
		w.setInfo(info)
	}
	return w, nil
}

// worker gives the host's entry for a name, made where there is none.
func (p *plugin) worker(name string) *worker {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	return p.workerLocked(name)
}

func (p *plugin) workerLocked(name string) *worker {
	w := p.h.workers[name]
	if w == nil {
		w = newWorker(name, p.cfg.Name, p.h.cfg().Timing.WorkerGone, p.h.ctx.Done())
		w.graces.Store(p.h.graces())
		w.orders = p.h.ordered[name]
		if b, ok := p.block(name); ok {
			w.block, w.unwanted = blockOf(b), p.blocks.Load().unwanted[b.Name]
		}
		p.h.workers[name] = w
		p.h.entries[p.cfg.Name]++
	}
	return w
}
