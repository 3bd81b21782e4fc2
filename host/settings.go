package host

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/slipway-run/slipway/host/config"
)

// settings is the configuration that the host goes by. Another may take its place while it runs: who reads twice may read two.
type settings struct {
	config     atomic.Pointer[config.Config] // not changed
	keepFailed atomic.Bool                   // of Options, until the configuration's is changed

	mu      sync.Mutex
	changed chan struct{} // closed, and replaced, when there are others
}

func (s *settings) begin(cfg *config.Config, keepFailed bool) {
	s.config.Store(cfg)
	s.keepFailed.Store(keepFailed)
	s.changed = make(chan struct{})
}

// changes gives a channel that is closed when other settings hold. To miss none, ask for it before reading any.
func (s *settings) changes() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// tell closes the channel of changes.
func (s *settings) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// cfg is the configuration as it is now.
func (h *Host) cfg() *config.Config { return h.settings.config.Load() }

// streamLimits are those of the options, and where they say nothing the configuration's.
func (h *Host) streamLimits() StreamLimits {
	a := h.cfg().Artifacts
	return StreamLimits{Sent: cmp.Or(h.opts.Streams.Sent, a.StreamSize), Unpacked: cmp.Or(h.opts.Streams.Unpacked, a.StreamUnpackedSize)}
}
