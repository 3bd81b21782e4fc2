package claim

import (
	"sync"

	"github.com/slipway-run/slipway/sdk"
)

// finding is what was found out about the server and need not be asked again.
type finding struct {
	mu       sync.Mutex
	bases    map[string]string // handles of shared volumes, by key
	pending  map[string]bool   // handles whose making a call has left to the server
	features []sdk.Feature     // nil: not known
}

func (f *finding) init() {
	f.bases = make(map[string]string)
	f.pending = make(map[string]bool)
}

func (f *finding) base(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bases[key]
}

func (f *finding) setBase(key, handle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bases[key] = handle
}

func (f *finding) left(handle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending[handle] = true
}

func (f *finding) settled(handle string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pending, handle)
}

func (f *finding) isPending(handle string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pending[handle]
}

func (f *finding) known() []sdk.Feature {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.features
}

func (f *finding) setFeatures(features []sdk.Feature) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.features = features
}
