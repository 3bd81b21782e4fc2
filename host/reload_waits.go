package host

import (
	"fmt"
	"slices"
	"sync"
)

// waits are what a change of settings or plugins waits for now, in words.
type waits struct {
	mu  sync.Mutex
	all []*func() string // empty text: for nothing that could be named
}

// on notes something that is waited for until done is called.
func (w *waits) on(what func() string) (done func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, &what)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(w.all, func(f *func() string) bool { return f == &what })
	}
}

func (w *waits) words() (out []string) {
	w.mu.Lock()
	all := slices.Clone(w.all)
	w.mu.Unlock()
	for _, what := range all {
		if text := (*what)(); text != "" {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Changing tells what [Host.Reload] or [Host.RestartPlugin] waits for where one is under way, such as "worker big to tell how it is".
func (h *Host) Changing() []string { return h.waits.words() }

// toStart and toEnd say what is waited for of a plugin's process.
func (p *plugin) toStart() string { return worded("plugin", p.cfg.Name) + " to start" }
func (p *plugin) toEnd() string   { return worded("plugin", p.cfg.Name) + " to end" }

// toTell says what is waited for of a plugin that runs.
func (p *plugin) toTell() string {
	select {
	case <-p.told:
	default:
		return worded("plugin", p.cfg.Name) + " to tell its workers"
	}
	var names []string
	for _, w := range p.h.sortedWorkers() {
		if w.plugin == p.cfg.Name && w.connection() == nil {
			names = append(names, w.name)
		}
	}
	return toTell(names)
}

func toTell(workers []string) string {
	switch len(workers) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("worker %s to tell how it is", workers[0])
	}
	return fmt.Sprintf("workers %s to tell how they are", list(workers))
}

// toTell says which workers a trial waits for.
func (t *trial) toTell() string {
	var names []string
	for _, w := range t.workers {
		select {
		case <-t.unproven[w].seen:
		default:
			names = append(names, w.name)
		}
	}
	return toTell(names)
}
