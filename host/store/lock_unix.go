//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package store

import (
	"errors"
	"os"
	"syscall"
)

// openLocked opens path and locks it until the file is closed or the process
// dies. It makes the file if create is set. errHeld means that another process
// has it.
func openLocked(path string, create bool) (*os.File, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return current(f, path)
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errHeld
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}

// unlock gives the lock back and closes the file. Closing alone is not enough: until
// it executes its program, a child that was forked meanwhile has the file open, too.
func unlock(f *os.File) error {
	return errors.Join(os.NewSyscallError("unlock", syscall.Flock(int(f.Fd()), syscall.LOCK_UN)), f.Close())
}

// current makes sure that the file just locked is still the one at path: one
// that was removed meanwhile locks nobody out.
func current(f *os.File, path string) (*os.File, error) {
	mine, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
		return f, nil
	}
	f.Close()
	return nil, errHeld // by who removed it, or has made it again
}
