package wire

import (
	"encoding/binary"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// WriteOutput sends a record of the journal, in as many frames as its bytes take.
func (c *Conn) WriteOutput(r sdk.Record) error {
	if r.IsGap() {
		return c.Write(KindGap, binary.BigEndian.AppendUint64(nil, uint64(r.Position)), binary.BigEndian.AppendUint64(nil, uint64(r.GapTo)))
	}
	for {
		data := r.Data[:min(len(r.Data), MaxOutput)]
		var header [outputHeader]byte
		header[0] = byte(r.Stream)
		binary.BigEndian.PutUint64(header[1:], uint64(r.Position))
		binary.BigEndian.PutUint64(header[9:], uint64(r.Time.UnixNano()))
		if err := c.Write(KindOutput, header[:], data); err != nil {
			return err
		}
		if len(data) == len(r.Data) {
			return nil
		}
		r.Position += sdk.Position(len(data))
		r.Data = r.Data[len(data):]
	}
}

// Record reads the payload of KindOutput or KindGap, which must begin at next. Its data is the payload's.
func Record(kind Kind, p []byte, next sdk.Position) (sdk.Record, error) {
	var r sdk.Record
	switch {
	case kind == KindGap && len(p) == 16:
		r.Position = sdk.Position(binary.BigEndian.Uint64(p))
		r.GapTo = sdk.Position(binary.BigEndian.Uint64(p[8:]))
		if r.GapTo <= r.Position {
			return r, broken("a gap from %d to %d", r.Position, r.GapTo)
		}
	case kind == KindOutput && len(p) > outputHeader:
		r.Stream = sdk.Stream(p[0])
		r.Position = sdk.Position(binary.BigEndian.Uint64(p[1:]))
		r.Time = time.Unix(0, int64(binary.BigEndian.Uint64(p[9:])))
		r.Data = p[outputHeader:]
		if r.Stream != sdk.Stdout && r.Stream != sdk.Stderr {
			return r, broken("output of stream %d", r.Stream)
		}
	default:
		return r, broken("a record of kind %d with %d bytes", kind, len(p))
	}
	if r.Position != next || r.End() < next {
		return r, broken("a record at position %d where %d comes next", r.Position, next)
	}
	return r, nil
}
