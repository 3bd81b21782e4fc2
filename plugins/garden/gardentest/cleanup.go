//go:build linux

package gardentest

import (
	"context"
	"fmt"
	"testing"
)

// cleanUp ends what runs in containers, then the servers, and takes away what is left. It fails the test if anything stays.
func (s *Servers) cleanUp(t testing.TB) {
	defer s.lock.Close()
	ctx, cancel := cleaning(t)
	defer cancel()
	if t.Failed() {
		t.Logf("gardentest: Garden said last:\n%s", logOf(s.get(&s.garden), failureLines))
		t.Logf("gardentest: Baggageclaim said last:\n%s", logOf(s.get(&s.baggage), failureLines))
	}
	if err := s.destroyContainers(ctx); err != nil {
		t.Logf("gardentest: containers are deleted by force: %v", err)
	}
	for _, p := range []*process{s.get(&s.garden), s.get(&s.baggage)} {
		if p == nil {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, askLimit)
		p.end(asked)
		cancel()
	}
	s.endNamespaces()
	if err := clear(ctx, s.Dir); err != nil {
		t.Errorf("gardentest: clean-up: %v", err)
	}
}

// destroyContainers has the server do it, which knows more of them than runc does.
func (s *Servers) destroyContainers(ctx context.Context) error {
	p := s.get(&s.garden)
	if p == nil || !p.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	handles, err := s.gardenAPI.containers(ctx)
	if err != nil {
		return err
	}
	for _, h := range handles {
		if err := s.gardenAPI.destroyContainer(ctx, h); err != nil {
			return fmt.Errorf("container %s: %w", h, err)
		}
	}
	return nil
}
