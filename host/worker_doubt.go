package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/slipway-run/slipway/host/store"
)

// A worker that does not answer with other settings than those with which it was seen last is in doubt: they may have a mistake in them, or lead to a place that is not the old one, where
// what is recorded goes on. It counts as one that leads elsewhere until it is seen to be the same place: nothing of it is given up for being away.

// doubt puts a worker that is away in doubt, if its settings are not those with which it was seen last and something is recorded of it. Its report says then what has changed, and what to do.
// One that was in doubt and has its old settings again is away as any other from now on.
func (h *Host) doubt(ctx context.Context, w *worker) {
	p := h.plugin(w.plugin)
	if p == nil || w.isJudged(p) || w.endsWithPlugin() { // what ends with the plugin's process has ended
		return
	}
	changed, whole, err := p.changedSince(ctx, w.name)
	var holds string
	if err == nil && changed != "" {
		holds, err = h.usedThere(ctx, w.name, everyVolume)
	}
	if err != nil {
		if ctx.Err() == nil {
			h.log.Warn("whether a worker leads to the place that it was is not known", "worker", w.name, "error", err)
		}
		return // it stays as it is until the next look
	}
	if holds != "" {
		w.setDoubt(fmt.Sprintf("Its settings have changed since it was seen last: %s. So nothing of it is given up, and %s. %s", changed, holds, atStart(w.name)))
		return
	}
	if w.inDoubt() {
		w.setElsewhere(false)
	}
	if changed == "" && whole {
		w.judge(p)
	}
}

// changedSince says which settings of a worker are not those with which it was seen last, and how; empty: none, or it was never seen. Where the plugin has never said which settings it has, only those
// are compared that every plugin has, and whole is false.
func (p *plugin) changedSince(ctx context.Context, worker string) (changed string, whole bool, err error) {
	before, err := p.h.lastSettings(ctx, worker)
	if err != nil || before == nil {
		return "", true, err
	}
	now := p.settingsOf(worker)
	whole = p.h.opts.Runtimes[p.cfg.Name] != nil || !reflect.ValueOf(p.proc.State().Info).IsZero()
	if !whole {
		maps.DeleteFunc(before, func(name, _ string) bool { _, is := now[name]; return !is })
	}
	return differing(before, now), whole, nil
}

// lastSettings are those with which a worker was seen last; nil: it was not.
func (h *Host) lastSettings(ctx context.Context, worker string) (settings map[string]string, err error) {
	var row store.Worker
	err = h.store.View(ctx, func(tx *store.Tx) (err error) {
		row, err = tx.Worker(worker)
		return ignoreNotFound(err)
	})
	if err != nil || row.Settings == "" {
		return nil, err
	}
	if err := json.Unmarshal([]byte(row.Settings), &settings); err != nil {
		return nil, fmt.Errorf("record of worker %s: %w", worker, err)
	}
	return settings, nil
}

// setDoubt has the worker count as one that leads elsewhere, for a reason that is told beside why it is away. One that has come back since that was looked for was seen to be the same place.
func (w *worker) setDoubt(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		w.elsewhere, w.doubt = true, why
	}
}

// endDoubt notes that the worker was seen to be the same place. The lock is held.
func (w *worker) endDoubt() {
	if w.doubt != "" {
		w.elsewhere, w.doubt, w.givenUp = false, "", false
	}
}

// judge notes that the worker's settings with this plugin are those with which it was seen last, which stays so: a plugin that gets others is another one.
func (w *worker) judge(p *plugin) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judged = p
}

func (w *worker) isJudged(p *plugin) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.judged == p
}

func (w *worker) inDoubt() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doubt != ""
}

// whyText says why the worker is away, and of one in doubt what it is about. The lock is held.
func (w *worker) whyText() string {
	if w.doubt == "" {
		return w.why.Error()
	}
	return w.why.Error() + ". " + w.doubt
}
