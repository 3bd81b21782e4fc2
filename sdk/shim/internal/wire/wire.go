// Package wire is what the driver and the program in the container say to each other. It holds frames, messages and what
// makes them of the contract's values; it starts nothing and decides nothing.
//
// # A session
//
// The program's first words on stdout are a [Hello], one line of text. If it says that the keeper answers, or that its
// records are read in its stead, stdin and stdout then are a yamux session: the driver opens one stream per call, sends a
// [Request], and gets a [Reply]. Following gets [KindOpened] instead, then [KindOutput], [KindGap], [KindTaken] and [KindExit] as they
// come, and [KindEnd] last; the driver sends [KindAck], [KindStdin] and [KindStdinEnd] meanwhile.
//
// Archives go by an exec of their own, without a session: after the Hello the driver sends a Request, for an archive that goes in
// also [KindData] and [KindEnd]; the program sends KindData for one that comes out, and a Reply last.
//
// # Trust
//
// Root in a container can put anything on the wire. So what is read is bounded before it is kept, every message has a
// place where it may come, and what is made of it is checked as if an enemy had written it.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Version is that of this protocol. A driver and a program of different versions do not talk.
const Version = 1

const (
	// MaxFrame bounds a frame's payload.
	MaxFrame = 64 << 10
	// MaxMessage bounds a request, which may take more than one frame: all that a process is started with fits
	// ([sdk.MaxArgBytes], as base64). Everything else fits one frame.
	MaxMessage = 4 << 20

	headerBytes = 4
)

// Kind says what a frame holds.
type Kind byte

// The kinds of frames.
const (
	KindMore     Kind = iota + 1 // a part of a message; the rest follows
	KindRequest                  // [Request], or its last part
	KindReply                    // [Reply]
	KindOpened                   // [Opened]
	KindOutput                   // stream, position, time, bytes: see [Conn.WriteOutput]
	KindGap                      // position, position after it
	KindTaken                    // how much of stdin was taken
	KindExit                     // [Exit]
	KindEnd                      // [Failure] or nothing: how a stream of frames ended
	KindAck                      // the position before which all is stored
	KindStdin                    // bytes
	KindStdinEnd                 // nothing: stdin is at its end
	KindData                     // bytes of a file or an archive
)

// ErrTooLarge says that a message of ours is not sent, because it takes more than the other side reads. Nothing went out.
var ErrTooLarge = errors.New("more than a message of the shim's holds")

// ErrProtocol is the target of errors.Is for whatever is on the wire and should not be.
var ErrProtocol = errors.New("the shim's wire holds what does not belong there")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// Conn sends and receives frames. Writes may come from many goroutines, reads from one.
type Conn struct {
	r       *bufio.Reader
	payload []byte

	mu sync.Mutex
	w  io.Writer
	to []byte
}

// NewConn makes a Conn of both directions; either may be nil if it is not used.
func NewConn(r io.Reader, w io.Writer) *Conn {
	c := &Conn{w: w}
	if b, ok := r.(*bufio.Reader); ok {
		c.r = b
	} else if r != nil {
		c.r = bufio.NewReaderSize(r, 32<<10)
	}
	return c
}

// Write sends one frame in one call of the writer. The parts of the payload are at most MaxFrame bytes together.
func (c *Conn) Write(kind Kind, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > MaxFrame {
		return broken("a frame of %d bytes is to be sent", size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = append(c.to[:0], byte(kind), byte(size>>16), byte(size>>8), byte(size))
	for _, p := range parts {
		c.to = append(c.to, p...)
	}
	_, err := c.w.Write(c.to)
	return err
}

// Read gives the next frame. Its payload is valid until the next Read. io.EOF comes only between two frames.
func (c *Conn) Read() (Kind, []byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(c.r, header[:]); err != nil {
		return 0, nil, err
	}
	size := int(header[1])<<16 | int(header[2])<<8 | int(header[3])
	if size > MaxFrame {
		return 0, nil, broken("a frame of %d bytes", size)
	}
	if cap(c.payload) < size {
		c.payload = make([]byte, max(size, min(2*cap(c.payload), MaxFrame)))
	}
	p := c.payload[:size]
	if _, err := io.ReadFull(c.r, p); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return Kind(header[0]), p, nil
}

// Buffered tells whether the next Read has at least the beginning of a frame at hand.
func (c *Conn) Buffered() bool { return c.r.Buffered() > headerBytes }

// WriteMessage sends v as JSON; only a request may take more than one frame.
func (c *Conn) WriteMessage(kind Kind, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxMessage || len(b) > MaxFrame && kind != KindRequest {
		return ErrTooLarge
	}
	for len(b) > MaxFrame {
		if err := c.Write(KindMore, b[:MaxFrame]); err != nil {
			return err
		}
		b = b[MaxFrame:]
	}
	return c.Write(kind, b)
}

// ReadMessage receives a message of that kind, in one frame, into v. All that comes from a container does, so that what it makes the
// driver keep stays in proportion to a frame.
func (c *Conn) ReadMessage(want Kind, v any) error {
	kind, b, err := c.Read()
	if err != nil {
		return err
	}
	if kind != want {
		return broken("a frame of kind %d where kind %d belongs", kind, want)
	}
	return Decode(b, v)
}

// ReadRequest receives a request of one or more frames.
func (c *Conn) ReadRequest() (Request, error) {
	var r Request
	err := c.ReadLong(&r)
	return r, err
}

// ReadLong receives into v what WriteMessage has sent as a request, in one or more frames.
func (c *Conn) ReadLong(v any) error {
	var whole []byte
	for {
		kind, b, err := c.Read()
		if err != nil {
			return err
		}
		if len(whole)+len(b) > MaxMessage || kind == KindMore && len(b) == 0 {
			return broken("a request that does not end")
		}
		whole = append(whole, b...)
		switch kind {
		case KindMore:
		case KindRequest:
			return Decode(whole, v)
		default:
			return broken("a frame of kind %d in a request", kind)
		}
	}
}

// Decode reads a message's JSON.
func Decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return broken("%v", err)
	}
	return nil
}

const outputHeader = 1 + 8 + 8

// MaxOutput is how many bytes of output a frame takes.
const MaxOutput = MaxFrame - outputHeader

// WriteNumber sends a frame that holds a number: KindTaken or KindAck.
func (c *Conn) WriteNumber(kind Kind, n int64) error {
	return c.Write(kind, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// Number reads the payload of KindTaken or KindAck.
func Number(p []byte) (int64, error) {
	if len(p) != 8 || p[0] >= 0x80 {
		return 0, broken("%d bytes are no number", len(p))
	}
	return int64(binary.BigEndian.Uint64(p)), nil
}
