package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// life is what the suite has seen of the end of a plugin that nobody has ended. Cases that run side by side share one process: once that is gone, a case that
// begins would only tell so again.
type life struct {
	mu      sync.Mutex
	running map[string]bool // cases that share the process
	witness []string        // those of them that ran when one of them was first told that the plugin is gone

	waited sync.Once // for how it has ended
}

// began notes that a case runs, and returns how to note its end. A case that has the plugin to itself may be the one that ends it.
func (l *life) began(kase Case) (ended func()) {
	if kase.Exclusive {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		l.running = make(map[string]bool)
	}
	l.running[kase.ID] = true
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, kase.ID)
	}
}

// heard notes an error that a case was given.
func (l *life) heard(kase Case, err error) {
	if kase.Exclusive || !errors.Is(err, sdk.ReasonPluginGone) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.witness == nil {
		l.witness = slices.Sorted(maps.Keys(l.running))
	}
}

// over tells in words how the process of the cases that run side by side has ended, and while which of them; empty: as far as can be known it runs. Nobody asks before
// a case was told that it is gone.
func (s *suite) over(ctx context.Context) string {
	s.life.mu.Lock()
	witness := s.life.witness
	s.life.mu.Unlock()
	if witness == nil {
		return ""
	}
	how := s.ended(ctx)
	if how == "" {
		return ""
	}
	return fmt.Sprintf("while %s ran: %s", strings.Join(witness, ", "), how)
}

// ended tells how the plugin's process has ended; empty: as far as can be known it runs. For that it waits once in a run: a plugin that lives and says that it is
// gone, as one does whose connection breaks, would else cost each case that time.
func (s *suite) ended(ctx context.Context) (how string) {
	if s.inst.Ended == nil {
		return ""
	}
	s.life.waited.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, s.patience())
		defer cancel()
		how = s.inst.Ended(ctx)
	})
	if how == "" {
		now, cancel := context.WithCancel(ctx)
		cancel()
		how = s.inst.Ended(now)
	}
	return how
}
