package keeper

import (
	"time"

	"github.com/slipway-run/slipway/sdk"
)

const (
	// recordBytes is the size to which writes are joined. Small enough to be a fraction of any message, and to fit a frame of 64 KiB with
	// what goes before it.
	recordBytes = 60 << 10
	// joinWithin is how close in time two writes must be to share a record, and with it a time.
	joinWithin = 10 * time.Millisecond
	// batchBytes and batchRecords bound one call of Follow.Output.
	batchBytes   = 256 << 10
	batchRecords = 1024
)

// Store keeps the records of one journal, which makes all calls one after another; only Readers are used beside them and
// beside each other.
type Store interface {
	// Bounds tells what is kept: from the first position that was not dropped to the end of all that was appended.
	Bounds() (oldest, end sdk.Position)

	// Append takes a part of p that is not empty from its start, and returns how much; 0 if there is no room until something
	// is dropped. A store may join what comes to what the same stream wrote shortly before, under that one's time.
	Append(stream sdk.Stream, at time.Time, p []byte) int

	// Drop forgets all before a position not beyond the end. A smaller one than before changes nothing.
	Drop(to sdk.Position)

	// Evict drops as much of the oldest as it takes to make room for something; false if there is nothing to drop.
	Evict() bool

	// Seal says that Append is not called again. Once all is dropped too, nothing is left but the end's position.
	Seal()

	// Reader gives a new reader.
	Reader() Reader
}

// Reader reads a Store.
type Reader interface {
	// Read gives at least one record, the first one beginning at from, which lies before the store's end. What was dropped or
	// cannot be read any more is a gap. The records are valid until the next call. An error leaves open what is there: another
	// call may succeed.
	Read(from sdk.Position) ([]sdk.Record, error)

	// Close lets go of what the reader holds.
	Close()
}

// gap stands for bytes that were dropped.
func gap(from, to sdk.Position) sdk.Record {
	return sdk.Record{Position: from, Time: time.Now(), GapTo: to}
}

// spillOf is how many bytes a process's journal keeps unacknowledged.
func spillOf(spec sdk.ProcessSpec) int64 {
	if spec.Spill == 0 {
		return sdk.DefaultSpill
	}
	return spec.Spill
}

// recordsFor keeps the book-keeping of tiny records in proportion to the bytes they hold.
func recordsFor(spill int64) int { return int(spill/64) + 1024 }

// header is what a record is, but for its bytes.
type header struct {
	position sdk.Position
	stream   sdk.Stream
	at       time.Time
	length   int64
}

// joinable tells how much of a write may still go into the record, the last of its store.
func (h header) joinable(stream sdk.Stream, at time.Time, limit int64, crowded bool) int64 {
	if h.stream != stream || at.Sub(h.at) > joinWithin && !crowded { // crowded: exact times are worth less than the room
		return 0
	}
	return max(0, limit-h.length)
}
