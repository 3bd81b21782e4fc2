package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-run/slipway/host/config"
)

// trial is of the workers of a plugin that is given other settings, while nothing is done on them yet.
type trial struct {
	workers  []*worker
	unproven map[*worker]*unproven
	before   map[*worker]*unproven // of an earlier reload
	over     bool
}

// newTrial keeps new work from those workers of a plugin that may be others with the settings of a configuration, and notes how they are before. Those are left out whose
// things end with the plugin's process anyway: it was decided already that nothing is lost with them.
func (r *reload) newTrial(ctx context.Context, p *plugin, c config.Plugin, next *config.Config) (*trial, error) {
	t := &trial{unproven: make(map[*worker]*unproven), before: make(map[*worker]*unproven)}
	info := p.proc.State().Info
	all := !sameProgram(p.cfg, c) || p.dir != next.Dir() || !sameBody(p.cfg.Body, c.Body, info.PluginSchema)
	for _, w := range r.h.sortedWorkers() {
		before, was := p.block(w.name)
		now, stays := workerOf(next, before.Name)
		if w.plugin != p.cfg.Name || !was || !stays || w.endsWithPlugin() || !all && sameBody(before.Body, now.Body, info.WorkerSchema) {
			continue
		}
		r.holdBack(w)
		holds, err := r.h.usedThere(ctx, w.name, everyVolume)
		if err != nil {
			return nil, err
		}
		t.workers = append(t.workers, w)
		t.before[w] = w.unprovenNow()
		t.unproven[w] = &unproven{holds: holds, wasUp: w.connection() != nil, seen: make(chan struct{}), accepted: make(chan struct{})}
	}
	return t, nil
}

// begin has the workers be looked at with care. Nobody looks at them with their old settings any more.
func (t *trial) begin() {
	for _, w := range t.workers {
		w.setUnproven(t.unproven[w])
	}
}

// outcome waits until it is known of each worker whether it is the one that it was, and tells why the settings cannot be taken: a worker that has something is
// another place with them, or does not answer, though it did before. One that was away before is no reason: it may have to be mended in this way.
func (t *trial) outcome(ctx context.Context, patience time.Duration) error {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	late := false
	var whys, names []string
	for _, w := range t.workers {
		m := t.unproven[w]
		if m.holds == "" {
			continue
		}
		if !late {
			select {
			case <-m.seen:
			case <-enough.C:
				late = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if why := m.obstacle(w.name, patience); why != "" {
			whys, names = append(whys, why), append(names, w.name)
		}
	}
	if len(whys) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", strings.Join(whys, "; "), otherPlace(names...))
}

// obstacle is why the settings cannot be taken; empty: they can.
func (m *unproven) obstacle(name string, patience time.Duration) string {
	err := fmt.Errorf("it has not told its status for %v", patience)
	select {
	case <-m.seen:
		err = m.err
	default:
	}
	if elsewhere := (*elsewhereError)(nil); errors.As(err, &elsewhere) {
		return elsewhere.Error()
	}
	if err != nil && m.wasUp {
		return fmt.Sprintf("worker %s does not answer with these settings (%v), and %s", name, err, m.holds)
	}
	return ""
}

// accept has the workers be used with their new settings. Of one that has something and has not answered yet it is still to be seen whether it is the one that it was.
func (t *trial) accept() {
	t.over = true
	for _, w := range t.workers {
		m := t.unproven[w]
		w.setElsewhere(false) // with other settings; that it is with these is still to be seen
		close(m.accepted)
		if m.holds == "" {
			w.setUnproven(nil)
		}
	}
}

// end has the workers be what they were, unless it was accepted: they get their old settings back.
func (t *trial) end() {
	if t.over {
		return
	}
	t.over = true
	for _, w := range t.workers {
		w.setUnproven(t.before[w])
	}
}

// trialPatience is how long a trial waits for a worker that does not tell how it is.
func (h *Host) trialPatience() time.Duration { return cmp.Or(h.opts.told, firstWorkers) }
