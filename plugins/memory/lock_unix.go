//go:build unix

package memory

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes a lock that ends with the process, however it ends. Unlock removes the file first: who had opened it by then finds
// another one at the path, or none, and tries again with that, so that two never hold locks of one name.
func lock(path string) (unlock func() error, err error) {
	for {
		f, err := lockFile(path)
		if err != nil {
			return nil, err
		}
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		there, err := os.Lstat(path)
		if err == nil && os.SameFile(mine, there) {
			return func() error { return errors.Join(os.Remove(path), f.Close()) }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// lockFile locks the file that is at the path now.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.New("another world serves there; end that one, or take another socket")
	}
	return nil, &os.PathError{Op: "lock", Path: path, Err: err}
}
