// Package spool keeps what processes wrote: one append-only file for each, as
// records with positions. The host appends what it follows, acknowledges it to
// the worker once it is here, and serves every viewer from here, each at its
// own pace; a slow one holds up nobody.
//
// A position counts the bytes of all streams of a process, dropped ones
// included. The file knows every position up to [Writer.Position], as data or
// as a gap; what is delivered again is recognised and left out, and what would
// leave a hole is refused. So following from Writer.Position after any failure
// neither doubles a byte nor loses one.
//
// # Durability
//
// What Append has returned nil for survives a kill of this process; of a
// loss of power, what the system happened to write. A record that a crash tore is cut off when a
// Writer is opened next, which moves Position back before it.
//
// # Files
//
// DIR/<shard>/<id>, the shard being two hex digits of a hash of the id. A file
// begins with eight bytes that name the format; then come the records, each
// with a CRC-32C. A finished file is read-only (0400), which is how a listing
// tells it from others. One process writes a spool at a time: the lock on the
// state directory sees to that. Any number may open it read-only.
//
// This package imports nothing of Slipway, and does not know what a process,
// an exit or a quota of a team is.
package spool
