package stream

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exchange puts fresh into path's place and the other way round, at once where the file system can.
func exchange(fresh, path, old string) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return exchangeByTwo(fresh, path, old)
	}
	return err
}
