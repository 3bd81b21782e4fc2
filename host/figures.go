package host

import (
	"maps"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host/lifecycle"
	"github.com/slipway-run/slipway/host/store"
)

// Figures are numbers of a host for whoever watches over it. Those of workers are in [Host.Workers] and [Host.Owed].
type Figures struct {
	Waiting  map[string]int   // who waits for a place on a worker, by team
	Turns    map[string]int   // steps that wait for their turn, by team
	Longest  time.Duration    // how long the first of those who wait for a place has waited
	Runs     map[string]int   // that have not ended, by state: "running" in this host, or "stopped", which nobody drives until somebody resumes them; nil: not known
	Streamed map[string]int64 // bytes, as they were sent, of streams that have ended well since the host was opened; by [StreamProgress].Via
}

// Figures tells how the host stands now.
func (h *Host) Figures() Figures {
	out := Figures{Waiting: make(map[string]int), Turns: make(map[string]int), Streamed: h.streamed.all()}
	for _, w := range h.queue.Waiting() {
		out.Waiting[w.Spec.Team]++
		out.Longest = max(out.Longest, time.Since(w.Since))
	}
	for _, w := range h.turnWaits() {
		out.Turns[w.team]++
	}
	err := h.store.View(h.ctx, func(tx *store.Tx) error {
		rows, err := tx.Runs(store.RunFilter{States: []string{lifecycle.RunGoing}})
		if err != nil {
			return err
		}
		out.Runs = map[string]int{"running": 0, "stopped": 0}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, row := range rows {
			state := "stopped"
			if h.runs[row.ID] {
				state = "running"
			}
			out.Runs[state]++
		}
		return nil
	})
	if err != nil { // without a store there are graver signs than a number that is missing
		out.Runs = nil
	}
	return out
}

// sums are bytes by name.
type sums struct {
	mu sync.Mutex
	of map[string]int64
}

func (s *sums) add(name string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[string]int64)
	}
	s.of[name] += max(n, 0)
}

func (s *sums) all() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.of)
}
