package rpc

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk"
)

// maxListedBytes bounds what comes over the wire for one list, or for one event with workers.
const maxListedBytes = 32 << 20

// bound counts what a plugin tells in one answer of many messages: a list without end must not take the host's memory, nor its time.
type bound struct {
	what        string
	rows, bytes int
	maxRows     int
}

// take counts one message with so many rows. Its error is the plugin's defect.
func (b *bound) take(m proto.Message, rows int) error {
	b.rows += max(rows, 1) // empty ones have no end either
	b.bytes += proto.Size(m)
	if b.rows > b.maxRows {
		return sdk.NewInternal(nil, "the plugin's answer to %s has more than %d entries", b.what, b.maxRows)
	}
	if b.bytes > maxListedBytes {
		return sdk.NewInternal(nil, "the plugin's answer to %s has more than %d bytes", b.what, maxListedBytes)
	}
	return nil
}

// kept counts what a host keeps of a plugin for as long as that runs: what it has told last of each of its workers, and how each is.
type kept struct {
	mu    sync.Mutex
	sizes map[string]int
	bytes int
}

// put notes how large the newest word on something is. Its error is the plugin's defect.
func (k *kept) put(what string, m proto.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	size := len(what) + proto.Size(m)
	if k.bytes-k.sizes[what]+size > maxListedBytes {
		return sdk.NewInternal(nil, "the plugin has told more than %d bytes of its workers", maxListedBytes)
	}
	if k.sizes == nil {
		k.sizes = make(map[string]int)
	}
	k.bytes += size - k.sizes[what]
	k.sizes[what] = size
	return nil
}

func (k *kept) drop(what ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range what {
		k.bytes -= k.sizes[w]
		delete(k.sizes, w)
	}
}

func (k *kept) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sizes, k.bytes = nil, 0
}

// What is kept of a worker, by its name.
func infoKey(worker string) string   { return "info " + worker }
func statusKey(worker string) string { return "status " + worker }
