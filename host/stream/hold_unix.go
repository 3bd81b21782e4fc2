//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package stream

import (
	"errors"
	"os"
	"syscall"
)

// hold takes a directory for this caller alone until release, or until the process ends, however it does. It fails with errHeld, or with
// errors.ErrUnsupported if the file system has no such locks. Release is never nil.
func hold(path string) (release func(), err error) {
	none := func() {}
	d, err := os.OpenFile(path, os.O_RDONLY|openDir, 0)
	if err != nil {
		return none, err
	}
	for {
		err = syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	switch {
	case err == nil:
		mine, err := d.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Lstat(path); err == nil && !os.SameFile(mine, there) {
				err = errHeld
			}
		}
		if err == nil {
			return func() {
				_ = syscall.Flock(int(d.Fd()), syscall.LOCK_UN) // a child that is being forked may have it open for a moment longer
				d.Close()
			}, nil
		}
		d.Close()
		return none, err
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = errHeld
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.EBADF), errors.Is(err, syscall.EINVAL): // as network file systems say
		err = errors.ErrUnsupported
	}
	d.Close()
	return none, err
}
