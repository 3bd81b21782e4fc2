package shim

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// guard reads what a container sends to our yamux session, and lets through only what cannot harm it. yamux holds its locks while it
// waits for the rest of a frame, so one that is cut in two by an enemy would hold up calls that end: guard passes on only bytes that
// are at hand, as more frames. And yamux answers each ping on a goroutine: guard bounds their number. Streams are ours to open.
type guard struct {
	r     *bufio.Reader
	head  []byte // of yamux, to be passed on
	body  int    // bytes after it, at hand
	rest  uint32 // bytes of the frame that come as a frame of their own
	id    uint32 // the stream of the frame
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
	for {
		switch {
		case len(g.head) > 0:
			n := copy(p, g.head)
			g.head = g.head[n:]
			return n, nil
		case g.body > 0:
			n, err := g.r.Read(p[:min(len(p), g.body)])
			g.body -= n
			return n, err
		case g.rest > 0:
			if err := g.piece(0); err != nil {
				return 0, err
			}
		default:
			if err := g.frame(); err != nil {
				return 0, err
			}
		}
	}
}

// piece makes what is at hand of the rest, at least a byte, a frame.
func (g *guard) piece(flags uint16) error {
	if _, err := g.r.Peek(1); err != nil {
		return unexpected(err)
	}
	g.body = min(g.r.Buffered(), int(min(g.rest, readBytes)))
	g.rest -= uint32(g.body)
	h := make([]byte, 0, muxHeader)
	h = append(h, 0, muxData)
	h = binary.BigEndian.AppendUint16(h, flags)
	h = binary.BigEndian.AppendUint32(h, g.id)
	g.head = binary.BigEndian.AppendUint32(h, uint32(g.body))
	return nil
}

// frame reads the header of the next frame.
func (g *guard) frame() error {
	h := make([]byte, muxHeader)
	if n, err := io.ReadFull(g.r, h); err != nil {
		if n > 0 {
			err = unexpected(err)
		}
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
	if g.rest = 0; kind == muxData {
		g.rest = binary.BigEndian.Uint32(h[8:])
	}
	if g.rest > 0 {
		g.id = binary.BigEndian.Uint32(h[4:])
		return g.piece(flags)
	}
	g.head = h
	return nil
}

func (g *guard) fail(format string, args ...any) error {
	err := fmt.Errorf("%w: %s", wire.ErrProtocol, fmt.Sprintf(format, args...))
	g.broken.CompareAndSwap(nil, &err)
	return err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
