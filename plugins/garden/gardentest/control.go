//go:build linux

package gardentest

import (
	"context"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// StartGarden starts the Garden server again, at the same address and with the same state, and waits until it answers.
func (s *Servers) StartGarden(t testing.TB) {
	t.Helper()
	s.again(t, &s.garden, s.startGarden)
}

// StartBaggageclaim does the same for Baggageclaim.
func (s *Servers) StartBaggageclaim(t testing.TB) {
	t.Helper()
	s.again(t, &s.baggage, s.startBaggageclaim)
}

func (s *Servers) again(t testing.TB, where **process, start func(context.Context) error) {
	t.Helper()
	if p := s.get(where); p != nil && p.running() {
		t.Fatalf("gardentest: the server (process %d) runs: stop or kill it first", p.pid())
	}
	if err := start(testkit.Context(t)); err != nil {
		t.Fatalf("gardentest: %v", err)
	}
}

// StopGarden ends the Garden server as an operator would. Its containers, and what runs in them, stay.
func (s *Servers) StopGarden(t testing.TB) { t.Helper(); s.stop(t, &s.garden) }

// StopBaggageclaim does the same for Baggageclaim. Its volumes stay, mounts included.
func (s *Servers) StopBaggageclaim(t testing.TB) { t.Helper(); s.stop(t, &s.baggage) }

func (s *Servers) stop(t testing.TB, where **process) {
	t.Helper()
	p := s.get(where)
	if p == nil {
		return
	}
	ctx, cancel := cleaning(t)
	defer cancel()
	if err := p.stop(ctx); err != nil {
		t.Fatalf("gardentest: %v", err)
	}
}

// KillGarden kills the Garden server and waits until it is gone. Its containers, and what runs in them, stay.
func (s *Servers) KillGarden() { s.kill(&s.garden) }

// KillBaggageclaim does the same for Baggageclaim.
func (s *Servers) KillBaggageclaim() { s.kill(&s.baggage) }

func (s *Servers) kill(where **process) {
	if p := s.get(where); p != nil {
		p.kill()
	}
}

// GardenPID is the process id of the Garden server that was started last, 0 if none was.
func (s *Servers) GardenPID() int { return pidOf(s.get(&s.garden)) }

// BaggageclaimPID is that of Baggageclaim.
func (s *Servers) BaggageclaimPID() int { return pidOf(s.get(&s.baggage)) }

func pidOf(p *process) int {
	if p == nil {
		return 0
	}
	return p.pid()
}

// GardenLog is the end of what the last started Garden server has said.
func (s *Servers) GardenLog() string { return logOf(s.get(&s.garden), tailLines) }

// BaggageclaimLog is that of Baggageclaim.
func (s *Servers) BaggageclaimLog() string { return logOf(s.get(&s.baggage), tailLines) }

func logOf(p *process, lines int) string {
	if p == nil {
		return ""
	}
	return p.log.tail(lines)
}

// Containers are the handles of all containers, by a call of their own to Garden, sorted.
func (s *Servers) Containers(t testing.TB) []string {
	t.Helper()
	return list(t, "garden", s.gardenAPI.containers)
}

// Volumes are the handles of all volumes, by a call of their own to Baggageclaim, sorted.
func (s *Servers) Volumes(t testing.TB) []string {
	t.Helper()
	return list(t, "baggageclaim", s.volumeAPI.volumes)
}

func list(t testing.TB, what string, call func(context.Context) ([]string, error)) []string {
	t.Helper()
	ctx, cancel := cleaning(t)
	defer cancel()
	handles, err := call(ctx)
	if err != nil {
		t.Fatalf("gardentest: %s: %v", what, err)
	}
	return handles
}
