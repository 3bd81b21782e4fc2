package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// How often a worker's status is asked for.
const (
	statusEvery   = 5 * time.Second
	statusTimeout = 10 * time.Second
	// While a worker is away it is asked sooner, then ever later up to statusEvery.
	probeFirst = 50 * time.Millisecond
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
		if ctx.Err() == nil {
			p.silent(fmt.Errorf("plugin %q stopped telling its workers, and is asked again: %w", p.cfg.Name, cmp.Or(err, errEndless)))
			select {
			case <-time.After(statusEvery):
			case <-ctx.Done():
			}
		}
	}
	for _, w := range p.h.sortedWorkers() {
		if w.plugin == p.cfg.Name {
			w.setAway(nil, fmt.Errorf("plugin %q is away", p.cfg.Name))
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

// silent goes on without the workers of which nothing was heard so far, for a reason.
func (p *plugin) silent(why error) {
	p.h.log.Warn("going on without a plugin's workers until it tells them", "plugin", p.cfg.Name, "error", why)
	for _, w := range p.h.sortedWorkers() {
		if w.plugin == p.cfg.Name {
			w.setSilent(why)
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

// left notes that the plugin does not tell a worker any more. One that is forgotten already, since it was away for long before, goes at once.
func (p *plugin) left(w *worker) {
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
			w.block = blockOf(b)
		}
		p.h.workers[name] = w
		p.h.entries[p.cfg.Name]++
	}
	return w
}

// monitor keeps a worker's state for one session. looked is called after the first look.
func (h *Host) monitor(ctx context.Context, w *worker, conn sdk.Worker, looked func()) {
	defer func() {
		if looked != nil {
			looked()
		}
		w.setAway(conn, errors.New("its plugin is away"))
		if err := conn.Close(); err != nil {
			h.log.Warn("closing a worker failed", "worker", w.name, "error", err)
		}
	}()
	settled := false // in this session
	for wait := probeFirst; ; {
		err := h.look(ctx, w, conn, &settled)
		if err != nil {
			w.setAway(conn, err)
			h.tellPlacement(w)
		}
		if looked != nil {
			looked()
			looked = nil
		}
		if err == nil {
			wait = statusEvery
		}
		select {
		case <-time.After(wait):
		case <-w.probe:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			wait = min(2*wait, statusEvery)
		} else {
			wait = probeFirst
		}
	}
}

// watchStalled takes workers out of placement that have been away for so long that no new work should wait for them, until the
// host closes. Being back puts them in again.
func (h *Host) watchStalled() {
	for {
		changed := h.settings.changes()
		tick := time.NewTimer(max(h.cfg().Timing.Stalled/10, 10*time.Millisecond))
		select {
		case <-tick.C:
		case <-changed:
		case <-h.ctx.Done():
		}
		tick.Stop()
		if h.ctx.Err() != nil {
			return
		}
		for _, w := range h.sortedWorkers() {
			h.tellPlacement(w)
			w.cutIfGone()
			h.pruneIfGone(w)
		}
	}
}

// tellPlacement tells placement how a worker is now.
func (h *Host) tellPlacement(w *worker) {
	w.placing.Lock()
	defer w.placing.Unlock()
	if now, err := h.worker(w.name); err == nil && now != w { // another has its name
		return
	}
	p, known, removed := w.placement()
	switch {
	case removed:
		h.index.Remove(w.name)
	case known:
		h.index.Upsert(p)
	}
	h.queue.Nudge() // what it keeps may be spare elsewhere, or not any more
}

// look asks for the status, and opens the worker for calls if it is well. What the last session left open is settled before
// that, once.
func (h *Host) look(ctx context.Context, w *worker, conn sdk.Worker, settled *bool) error {
	sctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	s, err := conn.Status(sctx)
	if err != nil && ctx.Err() == nil && sctx.Err() != nil {
		return sdk.NewUnavailable(err, "it has not told its status for %s; look whether what is behind it hangs", statusTimeout)
	}
	if err != nil {
		return err
	}
	if s.Health == sdk.Away || s.Health == sdk.HealthUnknown {
		return sdk.NewUnavailable(nil, "%s", cmp.Or(s.Reason, "its status is "+s.Health.String()))
	}
	if h.ephemeral() && !s.Has(sdk.FeatureVolatile) {
		w.setStatus(s)
		return unusedError{sdk.NewInvalid(sdk.ReasonConfig, "what is made on worker %s outlives this command, and nothing would remember it: give --state DIR", w.name)}
	}
	changed, err := h.checkIncarnation(ctx, w, s)
	if err != nil {
		return err
	}
	if changed {
		*settled = false // until that has worked: nobody notices the change again
	}
	if !*settled {
		if err := h.settle(ctx, w, conn); err != nil {
			return fmt.Errorf("settling what the last session left: %w", err)
		}
		*settled = true
	}
	if w.setUp(conn, s) {
		h.reconciler(w.name).back()
	}
	w.seen()
	h.tellPlacement(w)
	return nil
}

func (h *Host) sortedWorkers() []*worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*worker, 0, len(h.workers))
	for _, w := range h.workers {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *worker) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (h *Host) worker(name string) (*worker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.workers[name]; w != nil {
		return w, nil
	}
	return nil, sdk.NewNotFound(sdk.KindWorker, name)
}
