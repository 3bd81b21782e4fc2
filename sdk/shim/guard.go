package shim

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// guard reads what a container sends to our yamux session, and lets through only what cannot harm it. yamux answers each ping on a
// goroutine, which waits where the container does not read: guard bounds their number. And yamux keeps what comes on streams that the
// other end opens: here they are ours to open.
type guard struct {
	r     *bufio.Reader
	head  []byte // to be passed on
	body  int64  // bytes after it
	pings float64
	at    time.Time

	broken atomic.Pointer[error] // what should not have come
}

const (
	muxHeader = 12 // version, type, flags (2), stream (4), length (4)
	muxData   = 0
	muxPing   = 2
	muxGoAway = 3
	muxSYN    = 1

	pingBurst = 16 // then one each second
)

func (g *guard) Read(p []byte) (int, error) {
	if len(g.head) == 0 && g.body == 0 {
		if err := g.frame(); err != nil {
			return 0, err
		}
	}
	if len(g.head) > 0 {
		n := copy(p, g.head)
		g.head = g.head[n:]
		return n, nil
	}
	n, err := g.r.Read(p[:min(int64(len(p)), g.body)])
	g.body -= int64(n)
	return n, err
}

// frame reads the header of the next frame.
func (g *guard) frame() error {
	h := make([]byte, muxHeader)
	if _, err := io.ReadFull(g.r, h); err != nil {
		return err
	}
	kind, flags := h[1], binary.BigEndian.Uint16(h[2:])
	switch {
	case h[0] != 0 || kind > muxGoAway:
		return g.fail("a frame of version %d and type %d", h[0], kind)
	case kind < muxPing && flags&muxSYN != 0:
		return g.fail("a stream that the container opens")
	case kind == muxPing && flags&muxSYN != 0:
		now := time.Now()
		g.pings = max(0, g.pings-now.Sub(g.at).Seconds()) + 1
		if g.at = now; g.pings > pingBurst {
			return g.fail("more pings than there is reason for")
		}
	}
	if kind == muxData {
		g.body = int64(binary.BigEndian.Uint32(h[8:]))
	}
	g.head = h
	return nil
}

func (g *guard) fail(format string, args ...any) error {
	err := fmt.Errorf("%w: %s", wire.ErrProtocol, fmt.Sprintf(format, args...))
	g.broken.CompareAndSwap(nil, &err)
	return err
}
