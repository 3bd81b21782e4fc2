package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/keeper"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// Remains are the records of a keeper that is gone for good. They are read as they are, and nothing in them is believed more than a
// container may say of itself.
type Remains struct {
	Scratch fs.FS // the scratch volume, or a copy of it
}

// maxRecord bounds what is read of one record.
const maxRecord = 64 << 10

// List tells of all processes: those without an exit are abandoned. A volume that cannot be read is FailedPrecondition with
// sdk.ReasonRecordLost.
func (r Remains) List() ([]sdk.ProcessInfo, error) {
	entries, err := r.entries(processes)
	if err != nil {
		return nil, lost(err)
	}
	var all []sdk.ProcessInfo
	for _, e := range entries {
		info, _, err := r.read(sdk.ProcessID(e.Name()))
		if sdk.IsNotFound(err, sdk.KindProcess) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, info); len(all) == sdk.MaxProcesses {
			break
		}
	}
	return all, nil
}

// entries gives what is in a directory, or nothing where there is none, and no more than a keeper can have made.
func (r Remains) entries(name string) ([]fs.DirEntry, error) {
	if err := r.directory(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	f, err := r.Scratch.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.ErrUnsupported}
	}
	entries, err := dir.ReadDir(2 * sdk.MaxProcesses)
	if err == io.EOF {
		err = nil
	}
	return entries, err
}

// directory is an error where opening a directory could find something else, and wait for ever.
func (r Remains) directory(name string) error {
	info, err := fs.Stat(r.Scratch, name)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", name)
	}
	return err
}

func lost(err error) error {
	return &sdk.Error{Class: sdk.FailedPrecondition, Reason: sdk.ReasonRecordLost, Kind: sdk.KindContainer, Cause: err,
		Message: fmt.Sprintf("the container's keeper is gone and its records cannot be read: %v", err)}
}

// read gives the record of one process and where its journal ends, as far as that is known.
func (r Remains) read(id sdk.ProcessID) (sdk.ProcessInfo, sdk.Position, error) {
	var none sdk.ProcessInfo
	if err := sdk.CheckID(sdk.KindProcess, string(id)); err != nil {
		return none, 0, sdk.NewNotFound(sdk.KindProcess, wire.Text(string(id)))
	}
	var s Start
	if err := r.decode(path.Join(processes, string(id), startName), &s); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return none, 0, sdk.NewNotFound(sdk.KindProcess, string(id))
		}
		return none, 0, lost(err)
	}
	p := wire.Process{ID: id, Token: s.Token, StartedAt: s.StartedAt, State: sdk.ProcessAbandoned}
	var e ended
	// An exit that is not whole is none: it was never told to anybody.
	if err := r.decode(path.Join(processes, string(id), exitName), &e); err == nil && e.End >= 0 {
		if _, err := e.Exit.SDK(); err == nil {
			p.State, p.Exit = sdk.ProcessExited, &e.Exit
		}
	}
	info, err := p.SDK()
	if err != nil || s.ID != id {
		return none, 0, lost(fmt.Errorf("the start of process %q: %w", id, wire.ErrProtocol))
	}
	return info, e.End, nil
}

// decode reads a small file, if it is one: opening anything else could wait for ever.
func (r Remains) decode(name string, v any) error {
	info, err := fs.Stat(r.Scratch, name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", name)
	}
	f, err := r.Scratch.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// Ended is nil for a process that has its exit, and sdk.ReasonDead for one that has none: nobody is left to do anything with it.
func (r Remains) Ended(id sdk.ProcessID) error {
	info, _, err := r.read(id)
	if err == nil && info.State != sdk.ProcessExited {
		err = sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, "", "the container's keeper is gone, and process %q has no exit: destroy the container", id)
	}
	return err
}

// Follow delivers what is left of a journal, then the exit, or FailedPrecondition with sdk.ReasonAbandoned. Acknowledging is not needed
// and changes nothing on the volume.
func (r Remains) Follow(ctx context.Context, id sdk.ProcessID, from sdk.Position, f sdk.Follow) error {
	info, end, err := r.read(id)
	if err != nil {
		return err
	}
	name := path.Join(processes, string(id), journal)
	if err := r.directory(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return lost(err)
	}
	dir, err := fs.Sub(r.Scratch, name)
	if err != nil {
		return err
	}
	store, err := keeper.OpenSegments(dir, end)
	if err != nil {
		return lost(err)
	}
	return keeper.Ended(id, store, info.Exit).Follow(ctx, from, f)
}
