//go:build linux

package shelf

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Mode is how a lock is held.
type Mode int

// The modes of locks.
const (
	Shared    Mode = unix.LOCK_SH // with others that share it
	Exclusive Mode = unix.LOCK_EX // alone
)

// Make locks a thing for whoever makes it, alone, and makes its directory where missing. What is there already is only locked: Read tells. Until
// unlock is called, once, nobody else makes, locks or sweeps it.
func (s *Shelf[R]) Make(ctx context.Context, name string) (unlock func(), err error) {
	if err := check(name); err != nil {
		return nil, err
	}
	for {
		if err := makeDir(s.Path(name)); err != nil {
			return nil, err
		}
		unlock, err := s.Lock(ctx, name, Exclusive)
		if !errors.Is(err, fs.ErrNotExist) { // else it was taken away in between
			return unlock, err
		}
	}
}

// Lock locks a thing. The error is fs.ErrNotExist where it is not there, or went while the lock was awaited, and that of ctx where
// that ended first.
func (s *Shelf[R]) Lock(ctx context.Context, name string, how Mode) (unlock func(), err error) {
	if err := check(name); err != nil {
		return nil, err
	}
	return LockFile(ctx, s.Path(name, lockFile), how)
}

// TryLock locks a thing alone, unless it is gone or locked by others; then unlock is nil.
func (s *Shelf[R]) TryLock(name string) (unlock func(), err error) {
	if err := check(name); err != nil {
		return nil, err
	}
	path := s.Path(name, lockFile)
	f, err := openLock(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = flock(f, Exclusive, unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, nil
	}
	if err == nil {
		err = named(f, path)
	}
	if err == nil {
		return release(f), nil
	}
	f.Close()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nil, err
}

// LockFile locks a file, which is made where missing, as Lock does with a thing's own: for things with more than one lock. The error is
// fs.ErrNotExist where its directory is not there, or the file was renamed or removed while the lock was awaited.
func LockFile(ctx context.Context, path string, how Mode) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, f, how); err != nil {
		return nil, err
	}
	if err := named(f, path); err != nil {
		release(f)()
		return nil, err
	}
	return release(f), nil
}

func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

// release gives a lock back. A child that was forked meanwhile may hold the same open file until it executes its program, so closing is
// not enough.
func release(f *os.File) func() {
	return sync.OnceFunc(func() {
		_ = flock(f, unix.LOCK_UN, 0)
		f.Close()
	})
}

// named is fs.ErrNotExist where an open file is not the one at a path, or no longer.
func named(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err == nil && !os.SameFile(held, now) {
		err = &fs.PathError{Op: "lock", Path: path, Err: fs.ErrNotExist}
	}
	return err
}

func flock(f *os.File, how Mode, flags int) error {
	for {
		err := unix.Flock(int(f.Fd()), int(how)|flags)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// await owns f until it has the lock. The kernel's wait knows no context: where ctx ends first the goroutine is left to itself, and gives the
// lock back as soon as it has it.
func await(ctx context.Context, f *os.File, how Mode) error {
	err := flock(f, how, unix.LOCK_NB)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	locked, left := make(chan error), make(chan struct{})
	go func() {
		err := flock(f, how, 0)
		select {
		case locked <- err:
		case <-left:
			release(f)()
		}
	}()
	select {
	case err := <-locked:
		if err != nil {
			f.Close()
			return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
		return nil
	case <-ctx.Done():
		close(left)
		return ctx.Err()
	}
}
