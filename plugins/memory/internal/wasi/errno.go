package wasi

import (
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/tetratelabs/wazero/experimental/sys"
)

// errnoOf is an error of a namespace as wazero knows it, which is not all that there are.
func errnoOf(err error) sys.Errno {
	if err == nil || err == io.EOF {
		return 0
	}
	if errors.Is(err, fs.ErrClosed) {
		return sys.EBADF
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return sys.EIO
	}
	switch errno {
	case syscall.EBUSY:
		return sys.EPERM // a mount point
	case syscall.EXDEV:
		return sys.ENOTSUP
	}
	if known := sys.UnwrapOSError(errno); known != 0 {
		return known
	}
	return sys.EIO // ENOSPC and EFBIG among them
}
