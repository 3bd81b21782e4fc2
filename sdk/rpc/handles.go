package rpc

import (
	"errors"
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// handles keeps one handle for each worker in use, for on the wire there are names only. A handle is closed when its worker
// is gone and nobody is calling it, or at the end.
type handles struct {
	mu     sync.Mutex
	byName map[string]*handle
}

type handle struct {
	worker sdk.Worker
	users  int
	gone   bool
}

func newHandles() *handles { return &handles{byName: map[string]*handle{}} }

// acquire gives the worker of that name until release is called.
func (h *handles) acquire(rt sdk.Runtime, name string) (w sdk.Worker, release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := h.byName[name]
	if got == nil {
		w, err := rt.Worker(name)
		if err != nil {
			return nil, nil, err
		}
		got = &handle{worker: w}
		h.byName[name] = got
	}
	got.users++
	return got.worker, func() { h.release(got) }, nil
}

func (h *handles) release(got *handle) {
	h.mu.Lock()
	got.users--
	last := got.gone && got.users == 0
	h.mu.Unlock()
	if last {
		_ = got.worker.Close() // nobody is left to tell
	}
}

// observe drops the handles of workers that an event says are gone.
func (h *handles) observe(event sdk.WorkerEvent) {
	named := make(map[string]bool, len(event.Workers))
	for _, w := range event.Workers {
		named[w.Name] = true
	}
	switch event.Kind {
	case sdk.WorkerSnapshot:
		_ = h.drop(func(name string) bool { return !named[name] })
	case sdk.WorkerRemove:
		_ = h.drop(func(name string) bool { return named[name] })
	}
}

// close drops all.
func (h *handles) close() error { return h.drop(func(string) bool { return true }) }

func (h *handles) drop(gone func(name string) bool) error {
	var unused []*handle
	h.mu.Lock()
	for name, got := range h.byName {
		if !gone(name) {
			continue
		}
		delete(h.byName, name)
		got.gone = true
		if got.users == 0 {
			unused = append(unused, got)
		}
	}
	h.mu.Unlock()
	var errs []error
	for _, got := range unused {
		errs = append(errs, got.worker.Close())
	}
	return errors.Join(errs...)
}
