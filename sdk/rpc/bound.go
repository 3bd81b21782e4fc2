package rpc

import (
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
