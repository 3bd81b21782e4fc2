package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/launch"
	"github.com/slipway-run/slipway/sdk"
)

// slowAfter is how long nothing is told of what slipway waits for.
const slowAfter = 2 * time.Second

// whileSlow tells what is waited for if that takes more than a moment, and once in a while what else it has come to be, until done is called.
func (a *app) whileSlow(what func() string) (done func()) { return whileSlow(a.say, what) }

func whileSlow(say func(string), what func() string) (done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		t := time.NewTimer(slowAfter)
		defer t.Stop()
		for said := ""; ; t.Reset(slowAgain) {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			if text := what(); text != "" && text != said {
				said = text
				say("waiting for " + text)
			}
		}
	})
	return func() {
		cancel()
		watch.Wait()
	}
}

// slowWorkers says which workers are waited for. Each is named once in a while for each kind of call, such as destroying: a worker that hangs holds up many.
type slowWorkers struct {
	say func(string)

	mu   sync.Mutex
	said map[slowKind]time.Time // when
}

type slowKind struct{ worker, verb string }

// slowAgain is how long nothing more is said of a kind, or of what else is waited for.
const slowAgain = 10 * time.Second

func (s *slowWorkers) tell(worker, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, _, _ := strings.Cut(what, " ")
	kind := slowKind{worker, verb}
	if at, ok := s.said[kind]; ok && time.Since(at) < slowAgain {
		return
	}
	if s.said == nil {
		s.said = make(map[slowKind]time.Time)
	}
	s.said[kind] = time.Now()
	s.say(fmt.Sprintf("waiting for worker %s: %s", worker, what))
}

// unready names what a host's readiness waits for.
func unready(h *host.Host) string {
	var waits []string
	untold := h.Untold()
	running := make(map[string]bool) // and have told their workers
	for _, p := range h.Plugins() {
		switch {
		case p.State.Runs():
			if running[p.Name] = !slices.Contains(untold, p.Name); !running[p.Name] {
				waits = append(waits, fmt.Sprintf("plugin %q to tell its workers", p.Name))
			}
		case p.State == launch.StateStarting:
			waits = append(waits, fmt.Sprintf("plugin %q to start", p.Name))
		case p.State == launch.StateBackoff:
			waits = append(waits, fmt.Sprintf("plugin %q, which has failed, to be started again: %v", p.Name, p.Err))
		}
	}
	for _, w := range h.Workers() {
		if running[w.Plugin] && !w.Up && w.Status.Health == sdk.HealthUnknown {
			waits = append(waits, fmt.Sprintf("worker %s to tell how it is", w.Name))
		}
	}
	return strings.Join(waits, ", and for ")
}

// unstopped names what the end of a host waits for.
func unstopped(h *host.Host) string {
	var waits []string
	for _, p := range h.Plugins() {
		if p.State != launch.StateStopped {
			waits = append(waits, fmt.Sprintf("plugin %q to end", p.Name))
		}
	}
	return strings.Join(waits, ", and for ")
}
