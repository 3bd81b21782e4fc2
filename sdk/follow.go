package sdk

import (
	"io"
	"time"
)

// Position counts the output bytes of all streams of a process from its start, dropped ones included. Byte n of the
// journal lies at position n; following from n delivers it first.
type Position int64

// Stream is one of a process's output streams.
type Stream uint8

// The streams. A terminal's output is all Stdout.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String gives the stream's usual name.
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	}
	return "unknown"
}

// MaxRecordBytes bounds Record.Data.
const MaxRecordBytes = 256 << 10

// Record is a piece of the journal, or a gap in it. Records come in order and without holes: each begins where the one
// before ended.
type Record struct {
	Position Position // of the first byte
	Stream   Stream   // 0 for a gap
	Time     time.Time
	Data     []byte   // 1 to MaxRecordBytes bytes; nil for a gap. Only valid during the callback.
	GapTo    Position // for a gap: the bytes from Position up to here were dropped, unacknowledged, as DropOldest has it
}

// IsGap tells whether the record stands for dropped bytes.
func (r Record) IsGap() bool { return r.GapTo != 0 }

// End is the position after the record.
func (r Record) End() Position {
	if r.IsGap() {
		return r.GapTo
	}
	return r.Position + Position(len(r.Data))
}

// Opened is what a follower learns first.
type Opened struct {
	State      ProcessState
	StdinTaken int64 // bytes of stdin that the keeper has taken so far
	// StdinGeneration is of this follower, and greater than those of all before it that had stdin, over restarts of the plugin, too; 0 if it has none.
	// What an older follower sent, and arrives late, is thrown away and not counted.
	StdinGeneration int64
}

// Follow is a follower's side. Every callback may be nil. An error from a callback ends the call and is returned
// unchanged. Output returning nil is not an acknowledgement: sending on Acks is.
type Follow struct {
	// Opened is called once, before anything else.
	Opened func(Opened) error
	// Output delivers at least one record. The first of all begins at the position that was asked for, or is a gap from there.
	Output func([]Record) error
	// Taken tells how many bytes of stdin the keeper has taken in all, from the start of the process on. It may skip values.
	Taken func(total int64)
	// Exit is called once, after the last record, and never for a process that was abandoned. Its exit is one that [Exit.Validate] lets pass: of
	// another a host takes the process for lost, and of several it believes the first.
	Exit func(Exit) error

	// Acks says that all before the position is stored for good. Cumulative; smaller values and those beyond what was
	// delivered are ignored. The runtime receives from it until the call returns, and nobody afterwards: the sender needs another
	// way out. The caller may close it when there will be no more; if the last position is not acknowledged by then, the call may
	// go on until ctx ends. With nil Acks all that Output returned nil for counts as acknowledged.
	Acks <-chan Position

	// Stdin is what to feed to the process, from Opened.StdinTaken on: the runtime does not read it before Opened has
	// returned, and not further than MaxStdinAhead beyond what was taken. Its io.EOF closes the process's stdin. Any other
	// error ends the call and closes nothing. Nil: this follower has no stdin and leaves that of others alone.
	//
	// A Read may still be blocked when the call returns; its result is thrown away.
	Stdin io.Reader
}
