package monitor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// enter makes the directory where it is missing, the user's own, and goes there.
func enter(dir string, u user) error {
	if dir == "" {
		dir = "/"
	}
	err := mkdirs(dir, u)
	if err == nil {
		err = os.Chdir(dir)
	}
	if err == nil {
		return nil
	}
	e := &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonPath, Kind: sdk.KindFile, ID: dir, Cause: err,
		Message: fmt.Sprintf("directory %q cannot be the process's: %v", dir, cause(err))}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		e.Class, e.Reason = sdk.FailedPrecondition, sdk.ReasonStorage
	}
	return e
}

func mkdirs(dir string, u user) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return unix.ENOTDIR
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := mkdirs(parent, u); err != nil {
			return err
		}
	}
	return mkdir(dir, u)
}

// mkdir makes one directory, the user's own. Who may write to its parent may put something else in its place at any moment: only what is
// an empty directory there becomes the user's.
func mkdir(dir string, u user) error {
	parent, err := unix.Open(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, filepath.Base(dir), 0o755); err != nil {
		if err == unix.EEXIST { // another process of the container wants the same one
			return nil
		}
		return err
	}
	if u.credential == nil {
		return nil
	}
	fd, err := unix.Openat(parent, filepath.Base(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	made := os.NewFile(uintptr(fd), dir)
	defer made.Close()
	if _, err := made.Readdirnames(1); err != io.EOF {
		return unix.EEXIST // not what was made
	}
	return made.Chown(u.uid, u.gid)
}

// cause is an error without the path that it names.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
