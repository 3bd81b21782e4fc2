package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// slot holds the worker that stands for a name now: after a crash it is another one.
type slot struct {
	mu    sync.Mutex
	w     sdk.Worker
	tools sdk.VolumeID // the probe's volume on it; empty: there is none
}

func (s *slot) get() sdk.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w
}

func (s *slot) set(w sdk.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w = w
}

func (s *slot) probe() sdk.VolumeID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}

func (s *slot) setProbe(id sdk.VolumeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = id
}

// creation is something that a case asked for, whether it came to be or not.
type creation struct {
	kind sdk.Kind
	id   string
	on   *slot
}

// tracker knows what a case made and has not destroyed yet.
type tracker struct {
	mu   sync.Mutex
	made []creation
}

func (t *tracker) add(c creation) {
	if sdk.CheckID(c.kind, c.id) != nil {
		return // nothing can come of it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.made, c) {
		t.made = append(t.made, c)
	}
}

func (t *tracker) remove(c creation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = slices.DeleteFunc(t.made, func(m creation) bool { return m == c })
}

// destroyAll destroys what is left, newest first, and goes on after errors.
func (t *tracker) destroyAll(ctx context.Context) error {
	t.mu.Lock()
	made := slices.Clone(t.made)
	t.mu.Unlock()
	var errs []error
	for _, m := range slices.Backward(made) {
		var err error
		if w := m.on.get(); m.kind == sdk.KindContainer {
			err = w.DestroyContainer(ctx, sdk.ContainerID(m.id))
		} else {
			err = w.DestroyVolume(ctx, sdk.VolumeID(m.id))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("destroying %s %q: %s", m.kind, m.id, describe(err)))
			continue
		}
		t.remove(m)
	}
	return errors.Join(errs...)
}
