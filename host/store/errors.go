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
	ErrFull = errors.New("the disk is full, or has not the 4 MiB free that slipway keeps in reserve: make room on it; slipway gc and slipway artifacts rm work meanwhile")
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
	// Daemon: the holder serves others on the directory, or will as soon as it has started, or has until it ends.
	Daemon bool
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state directory %s is in use by another process: wait for it or stop it; slipway logs works meanwhile", e.Dir)
	}
	return fmt.Sprintf("state directory %s is in use by process %d: wait for it or stop it; slipway logs works meanwhile", e.Dir, e.PID)
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

// FileError says that the database could not be opened, read or written, which
// is no fault of what is in it.
type FileError struct {
	File string
	Err  error // SQLite's
}

func (e *FileError) Error() string {
	what, advice := "cannot be read or written", "look whether the disk is full or failing, and whether the files beside it are as the host made them"
	switch code(e.Err) & 0xff {
	case sqlite3.SQLITE_CANTOPEN:
		what, advice = "cannot be opened", "look whether it is a file, and whether this user may read and write it and its directory"
	case sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH:
		what, advice = "cannot be written", "let this user write it and its directory, and look whether the disk is mounted read-only"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		what, advice = "is locked by another program", "end what has it open besides slipway"
	}
	return fmt.Sprintf("%s %s (%v): %s", e.File, what, e.Err, advice)
}

// Unwrap gives Err.
func (e *FileError) Unwrap() error { return e.Err }

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
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH,
		sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		if _, ok := errors.AsType[*FileError](err); !ok {
			return &FileError{File: file, Err: err}
		}
	}
	return err
}

// misfit is translate for what is asked of a database whose schema has the
// right version: that it lacks a table or a column is damage.
func misfit(file string, err error) error {
	if code(err)&0xff == sqlite3.SQLITE_ERROR {
		return &DamagedError{File: file, Detail: err.Error()}
	}
	return translate(file, err)
}
