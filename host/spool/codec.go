package spool

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"
)

// Stream says where a process wrote.
const (
	Stdout uint8 = 1
	Stderr uint8 = 2
)

// Record is some bytes of one stream, or, if Data is empty and GapTo greater
// than Position, a gap: the bytes of [Position, GapTo) were dropped.
type Record struct {
	Stream   uint8     // of the data; 0 in a gap
	Position int64     // of the first byte
	Time     time.Time // as the runtime saw it, for display; may be zero
	Data     []byte
	GapTo    int64
}

// End is the position after the record.
func (r Record) End() int64 {
	if len(r.Data) == 0 {
		return max(r.Position, r.GapTo)
	}
	return r.Position + int64(len(r.Data))
}

func (r Record) valid() bool {
	switch {
	case r.Position < 0 || r.GapTo < 0:
		return false
	case len(r.Data) == 0:
		return r.GapTo == 0 || r.GapTo >= r.Position
	}
	return r.GapTo == 0 && r.Position <= math.MaxInt64-int64(len(r.Data))
}

// cut gives the part of the record from position pos on.
func (r Record) cut(pos int64) Record {
	if pos <= r.Position {
		return r
	}
	if len(r.Data) > 0 {
		r.Data = r.Data[pos-r.Position:]
	}
	r.Position = pos
	return r
}

const (
	magic = "slipspl\x01"

	// header: crc32c of all that follows it (4), length of the payload (4),
	// kind (1), stream (1), zero (2), position (8), time (8); little endian.
	headerSize = 28
	maxPayload = 256 << 10

	kindData   = 1 // payload: the bytes
	kindGap    = 2 // payload: where it ends (8)
	kindFinish = 3 // payload: the trailer; position: the end of the output
)

// entry is a record as it is in the file.
type entry struct {
	Record
	finish  bool
	trailer []byte
}

var (
	errShort = errors.New("not all of the entry is there")
	errBad   = errors.New("this is no entry")
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once by crc32

// appendEntry appends kind's entry to b.
func appendEntry(b []byte, kind, stream uint8, position int64, at time.Time, payload []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, kind, stream, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(position))
	nanos := int64(0)
	if !at.IsZero() {
		nanos = at.UnixNano()
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(nanos))
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli()))
	return b
}

func appendGap(b []byte, from, to int64, at time.Time) []byte {
	return appendEntry(b, kindGap, 0, from, at, binary.LittleEndian.AppendUint64(nil, uint64(to)))
}

// decode reads the entry that b begins with, whatever bytes those are. n is its
// size; with errShort it is how much is needed to know more. What it returns
// points into b.
func decode(b []byte) (e entry, n int, err error) {
	if len(b) < headerSize {
		return entry{}, headerSize, errShort
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if length > maxPayload {
		return entry{}, 0, errBad
	}
	n = headerSize + int(length)
	if len(b) < n {
		return entry{}, n, errShort
	}
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:n], castagnoli()) {
		return entry{}, 0, errBad
	}
	payload := b[headerSize:n]
	e.Stream = b[9]
	e.Position = int64(binary.LittleEndian.Uint64(b[12:]))
	if nanos := int64(binary.LittleEndian.Uint64(b[20:])); nanos != 0 {
		e.Time = time.Unix(0, nanos).UTC()
	}
	switch kind := b[8]; {
	case kind == kindData && length > 0:
		e.Data = payload
	case kind == kindGap && length == 8:
		e.GapTo = int64(binary.LittleEndian.Uint64(payload))
	case kind == kindFinish:
		e.finish, e.trailer = true, payload
	default:
		return entry{}, 0, errBad
	}
	if !e.valid() || (b[8] == kindGap && e.GapTo <= e.Position) {
		return entry{}, 0, errBad
	}
	return e, n, nil
}
