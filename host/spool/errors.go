package spool

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid: an id or a record that cannot be.
	ErrInvalid = errors.New("invalid")
	// ErrBusy: the process has a Writer open.
	ErrBusy = errors.New("a writer is open")
	// ErrFinished: something new after Finish, or another trailer.
	ErrFinished = errors.New("finished already")
	// ErrNoMore: a Reader of a read-only spool is at the end of what is there
	// now. Next may be called again later. Nothing tells when: following
	// across processes goes through the host.
	ErrNoMore = errors.New("no more records for now")
	// ErrRemoved: the file was removed before it was finished.
	ErrRemoved = errors.New("removed")
	// ErrReadOnly: the spool was opened read-only.
	ErrReadOnly = errors.New("read only")
	// ErrClosed: the spool, or the Reader or Writer, was closed.
	ErrClosed = errors.New("closed")
)

// BeyondError says that a record begins after the end of what is known. Follow
// again from Want; if the bytes between are gone for good, append a gap first.
type BeyondError struct {
	ID   string
	Want int64 // the writer's position
	Got  int64 // the record's
}

func (e *BeyondError) Error() string {
	return fmt.Sprintf("output of process %s: a record at %d cannot follow position %d", e.ID, e.Got, e.Want)
}

// DamagedError says that a file has something at Offset that no writer left there.
type DamagedError struct {
	File   string
	Offset int64
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: what comes after it cannot be read", e.File, e.Offset)
}
