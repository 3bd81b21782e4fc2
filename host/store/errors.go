package store

import (
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrExists: another row has this id, or this owner or name that only one may have.
	ErrExists = errors.New("exists already")
	// ErrFull: the disk is full. Nothing of this Update was stored, all earlier ones are kept,
	// and it may be tried again once there is room.
	ErrFull = errors.New("disk full")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly: a write in a View, or to a store opened by OpenReadOnly.
	ErrReadOnly = errors.New("read only")
	// ErrTxDone: a Tx was used after the function that it was given to had returned.
	ErrTxDone = errors.New("transaction is over")
)

// LockedError says that another process has the state directory open.
type LockedError struct {
	Dir   string
	PID   int       // 0 if the holder has not written it yet
	Since time.Time // when the holder took the lock; zero if unknown
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state directory %s is in use by another process: talk to it, stop it, or use another directory", e.Dir)
	}
	return fmt.Sprintf("state directory %s is in use by process %d: talk to it, stop it, or use another directory", e.Dir, e.PID)
}

// VersionError says that the database was written by another version of
// Slipway: a newer one, or for OpenReadOnly an older one too.
type VersionError struct {
	File     string
	Has, Own int // versions of the schema: the file's, and the newest that this program knows
}

func (e *VersionError) Error() string {
	if e.Has > e.Own {
		return fmt.Sprintf("%s has schema version %d, this program knows up to %d: run a newer slipway", e.File, e.Has, e.Own)
	}
	return fmt.Sprintf("%s has schema version %d, this program needs %d: start the host once, it brings the file up to date", e.File, e.Has, e.Own)
}

// DamagedError says that the database cannot be trusted. The file is left as it is.
type DamagedError struct {
	File   string
	Detail string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged (%s): restore it from a backup, or move the state directory away to start anew", e.File, e.Detail)
}

// PanicError is what a panic in the function given to Update becomes.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("panic in an update of the store: %v", e.Value)
}

// Unwrap gives the panic's value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// code is SQLite's extended result code of err, or 0.
func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// translate gives an error of SQLite the class that callers decide by.
func translate(file string, err error) error {
	c := code(err)
	switch c {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE:
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	switch c & 0xff {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%s: %w: %w", file, ErrFull, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return &DamagedError{File: file, Detail: err.Error()}
	}
	return err
}
