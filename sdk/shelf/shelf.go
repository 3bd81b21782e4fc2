//go:build linux

package shelf

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Shelf is a directory of things of one kind; R is what is recorded of each, by encoding/json. Its methods may be called from many goroutines
// at once.
//
// A thing's name is the name of its directory: not empty, without a slash, and not beginning with a dot. Any other is an error that is
// fs.ErrInvalid, everywhere. Names of the contract (sdk.CheckID) are all good.
type Shelf[R any] struct {
	dir string
}

const (
	recordFile = "record.json"
	lockFile   = "lock"
	trash      = ".trash" // no thing's name
)

// Open opens a shelf, and makes its directory where missing, for this user alone. What is above it must be there.
func Open[R any](dir string) (*Shelf[R], error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(dir) // as the table of mounts names it
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err == nil {
		err = makeDir(filepath.Join(dir, trash))
	}
	if err != nil {
		return nil, err
	}
	return &Shelf[R]{dir: dir}, nil
}

// makeDir makes a directory that is there after a loss of power, too.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// check refuses what is no name. An empty one would be the shelf itself.
func check(name string) error {
	if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\x00") {
		return &fs.PathError{Op: "shelf", Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// Dir is the shelf's directory, without symbolic links. Names in it that begin with a dot are its owner's to use, but for ".trash".
func (s *Shelf[R]) Dir() string { return s.dir }

// Path gives where a thing's file is, or its directory. The name must be good: Path panics rather than lead out of the shelf.
func (s *Shelf[R]) Path(name string, rest ...string) string {
	if err := check(name); err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{s.dir, name}, rest...)...)
}

// Read gives a thing's record. Where the error is fs.ErrNotExist the thing is not there.
func (s *Shelf[R]) Read(name string) (r R, err error) {
	if err := check(name); err != nil {
		return r, err
	}
	text, err := os.ReadFile(s.Path(name, recordFile))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// Write replaces a record, whole and for good: after a crash or a loss of power at any moment the old or the new one is there. The caller
// holds the thing's lock.
func (s *Shelf[R]) Write(name string, r R) error {
	if err := check(name); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return WriteFile(s.Path(name, recordFile), text)
}

// Each gives all records, in any order. What comes or goes meanwhile may be told or not. An error of yield ends it and comes back unchanged.
func (s *Shelf[R]) Each(yield func(name string, r R) error) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		r, err := s.Read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile, or not begun
		}
		if err == nil {
			err = yield(name, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Shelf[R]) names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if check(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Discard takes a thing away at once, and then its files. The caller holds its lock, or nobody can know of it. After an error from
// removing the files the thing is gone all the same; Sweep removes what is left. Where something is mounted below the thing nothing is
// done, and the error is a *MountedError: to remove it would be to remove what is mounted.
func (s *Shelf[R]) Discard(name string) error {
	if err := check(name); err != nil {
		return err
	}
	if err := mounted(s.Path(name)); err != nil { // while it still has a name
		return err
	}
	grave := filepath.Join(s.dir, trash, rand.Text())
	if err := os.Rename(s.Path(name), grave); err != nil {
		return err
	}
	return Remove(grave)
}

// Sweep takes away what processes that were killed have left: things without a record that nobody is making, and files of things that are
// gone.
func (s *Shelf[R]) Sweep(ctx context.Context) error {
	names, err := s.names()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		err = errors.Join(err, s.sweep(name))
	}
	graves, readErr := os.ReadDir(filepath.Join(s.dir, trash))
	err = errors.Join(err, readErr)
	for _, g := range graves {
		if err := ctx.Err(); err != nil {
			return err
		}
		err = errors.Join(err, Remove(filepath.Join(s.dir, trash, g.Name())))
	}
	return err
}

func (s *Shelf[R]) sweep(name string) error {
	if _, err := s.Read(name); !errors.Is(err, fs.ErrNotExist) {
		return nil // it is there; what is wrong with a record is for its reader to say
	}
	unlock, err := s.TryLock(name)
	if unlock == nil {
		return err
	}
	defer unlock()
	if _, err := s.Read(name); !errors.Is(err, fs.ErrNotExist) {
		return nil // made meanwhile
	}
	return s.Discard(name)
}
