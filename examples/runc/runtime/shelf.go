//go:build linux

package runtime

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// shelf is a directory of things of one kind: for each a directory with its record, its lock and whatever else. Nothing of it is in
// memory, so it can be shared by processes.
type shelf[R any] struct {
	dir   string
	trash string // on the same file system
}

const (
	recordFile = "record.json"
	lockFile   = "lock"
)

func (s shelf[R]) path(id string, rest ...string) string {
	return filepath.Join(append([]string{s.dir, id}, rest...)...)
}

// read gives a thing's record. There is none where the error is fs.ErrNotExist: the thing is not there, or as good as not.
func (s shelf[R]) read(id string) (r R, err error) {
	text, err := os.ReadFile(s.path(id, recordFile))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// write replaces a record, whole and for good. The caller holds the thing's lock.
func (s shelf[R]) write(id string, r R) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeWhole(s.path(id, recordFile), text)
}

// each gives all records, in any order.
func (s shelf[R]) each(yield func(id string, r R) error) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		r, err := s.read(entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // destroyed meanwhile, or not begun
		}
		if err == nil {
			err = yield(entry.Name(), r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// make locks a thing for its maker, and makes its directory where missing.
func (s shelf[R]) make(ctx context.Context, id string) (unlock func(), err error) {
	for {
		if err := os.Mkdir(s.path(id), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		unlock, err := s.lock(ctx, id, unix.LOCK_EX)
		if !errors.Is(err, fs.ErrNotExist) { // else it was destroyed in between
			return unlock, err
		}
	}
}

// lock locks a thing, unix.LOCK_SH or LOCK_EX, across processes. The error is fs.ErrNotExist where the thing is not there, or went
// while the lock was awaited.
func (s shelf[R]) lock(ctx context.Context, id string, how int) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.path(id, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f, how); err != nil {
		return nil, err
	}
	same, err := s.named(f, id)
	if err == nil && !same {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// tryLock locks a thing for its remover, unless it is gone or locked by others; then unlock is nil.
func (s shelf[R]) tryLock(id string) (unlock func(), err error) {
	f, err := os.OpenFile(s.path(id, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		var same bool
		if same, err = s.named(f, id); same {
			return func() { f.Close() }, nil
		}
	}
	f.Close()
	return nil, err
}

// named tells whether a file is still the lock of a thing.
func (s shelf[R]) named(f *os.File, id string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(s.path(id, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(held, now), err
}

// flock owns f until it has the lock. The kernel's wait knows no context: where ctx ends first, the wait is left alone, and gives the
// lock back as soon as it has it.
func flock(ctx context.Context, f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return err
	}
	locked, taken := make(chan error), make(chan struct{})
	go func() {
		err := unix.Flock(int(f.Fd()), how)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(int(f.Fd()), how)
		}
		select {
		case locked <- err:
		case <-taken:
			f.Close()
		}
	}()
	select {
	case err := <-locked:
		if err != nil {
			f.Close()
		}
		return err
	case <-ctx.Done():
		close(taken)
		return ctx.Err()
	}
}

// discard takes a thing away at once, and then its files. The caller holds its lock, or nobody can know of it.
func (s shelf[R]) discard(id string) error {
	grave := filepath.Join(s.trash, rand.Text())
	if err := os.Rename(s.path(id), grave); err != nil {
		return err
	}
	return os.RemoveAll(grave)
}

// sweep takes away what a process that was killed left: things without a record, which nobody is making.
func (s shelf[R]) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if _, err := s.read(entry.Name()); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		unlock, err := s.tryLock(entry.Name())
		if unlock != nil {
			if _, err = s.read(entry.Name()); errors.Is(err, fs.ErrNotExist) {
				err = s.discard(entry.Name())
			}
			unlock()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeWhole replaces a file so that after a crash at any moment either the old or the new one is there.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
