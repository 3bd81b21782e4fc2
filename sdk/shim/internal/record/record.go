// Package record is what the keeper of a container writes down on the scratch volume, and how others read it when the keeper
// is gone. Nothing here starts anything or speaks to anybody.
//
// The volume holds
//
//	lock           held (flock) by the keeper as long as it lives; made once: where it is and nobody holds it, the keeper is dead. In it is its name
//	sock           where the keeper listens
//	log            what it had to say, bounded
//	p/<id>/start   one process: who asked for it; on disk before the command is started
//	p/<id>/exit    how it ended; written whole or not at all
//	p/<id>/j/      what it wrote and nobody has acknowledged (package keeper's segments)
//
// Nothing is synced to the disk: with the machine's power the container goes, and its records have nobody to tell.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// The names on the volume.
const (
	Lock   = "lock"
	Socket = "sock"
	Log    = "log"

	processes = "p"
	startName = "start"
	exitName  = "exit"
	newSuffix = ".new"
	journal   = "j"
)

// exitBytes is what an exit takes at most. It is set aside at the start, so that a volume that has filled up meanwhile still takes
// the exit.
const exitBytes = 8 << 10

// Start is the record of a start.
type Start struct {
	ID        sdk.ProcessID
	Token     sdk.Token
	StartedAt time.Time
}

// Process is the record of one process, for its keeper.
type Process struct{ dir string }

// Create writes the record of a start, and sets aside the room for an exit. After an error nothing is left.
func Create(scratch string, s Start) (*Process, error) {
	p := &Process{dir: filepath.Join(scratch, processes, string(s.ID))}
	if err := p.create(s); err != nil {
		return nil, errors.Join(storage(err, s.ID), p.Remove())
	}
	return p, nil
}

func (p *Process) create(s Start) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(p.path(exitName)+newSuffix, make([]byte, exitBytes), 0o600); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replace(p.path(startName), b)
}

// storage tells why a volume does not take a record. The process was not started.
func storage(err error, id sdk.ProcessID) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return sdk.NewUnavailable(err, "process %q was not started: its record could not be written: %v", id, err)
	}
	return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonStorage, Kind: sdk.KindProcess, ID: string(id), Cause: err,
		Message: fmt.Sprintf("process %q: the container's scratch volume does not take its record: %v; make room on it, or make it writable", id, err)}
}

func replace(name string, b []byte) error {
	if err := os.WriteFile(name+newSuffix, b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+newSuffix, name)
}

func (p *Process) path(name string) string { return filepath.Join(p.dir, name) }

// Journal is the directory of its segments, which is not made here.
func (p *Process) Journal() string { return p.path(journal) }

// ended is the record of an exit.
type ended struct {
	wire.Exit
	End sdk.Position // of the journal: what the segments lack of it was acknowledged
}

// Exit writes how it ended, and where its journal does, into the room that was set aside.
func (p *Process) Exit(e sdk.Exit, end sdk.Position) error {
	b, err := json.Marshal(ended{*wire.NewExit(e), end})
	if err != nil {
		return err
	}
	name := p.path(exitName)
	f, err := os.OpenFile(name+newSuffix, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(name+newSuffix, name)
}

// Remove takes the record away: the process was never started.
func (p *Process) Remove() error {
	// The record of the start goes first: without it there is none.
	if err := os.Remove(p.path(startName)); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.EROFS) {
		return err
	}
	if err := os.RemoveAll(p.dir); err != nil && !errors.Is(err, syscall.EROFS) {
		return err
	}
	return nil
}
