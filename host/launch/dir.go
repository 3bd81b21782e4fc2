package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxSocketPath is what a socket's path may have on every Unix: 104 bytes on macOS, 108 on Linux, with a NUL.
	maxSocketPath = 103
	// socketName stands for the longest name that go-plugin gives to a socket.
	socketName = "plugin4294967295"
	dirPattern = "slipway-p*"
	dirName    = "slipway-p4294967295"
)

// privateDir is the directory of one process: 0700, its path short enough for a socket in it. It is locked as long as the
// host lives, so that what a killed host left behind can be told and is removed by the next one.
type privateDir struct {
	path string
	lock *os.File // beside it
}

func newPrivateDir(configured string) (*privateDir, error) {
	bases := []string{configured}
	if configured == "" {
		bases = []string{os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), "/tmp"}
	}
	var tried []string
	for _, base := range bases {
		if base == "" {
			continue
		}
		d, err := newPrivateDirIn(base)
		if err == nil {
			return d, nil
		}
		tried = append(tried, err.Error())
	}
	return nil, &Error{Reason: ReasonDirectory, Message: fmt.Sprintf(
		"no directory for the plugin's socket: %s; configure a short one that the host may write to", strings.Join(tried, "; "))}
}

func newPrivateDirIn(base string) (*privateDir, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	if n := len(filepath.Join(base, dirName, socketName)); n > maxSocketPath {
		return nil, fmt.Errorf("%s is %d bytes too long for a socket in it", base, n-maxSocketPath)
	}
	sweep(base)
	lock, err := newLock(base)
	if err != nil {
		return nil, err
	}
	d := &privateDir{path: strings.TrimSuffix(lock.Name(), lockSuffix), lock: lock}
	for _, dir := range []string{d.path, filepath.Join(d.path, "tmp")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			d.remove()
			return nil, err
		}
	}
	return d, nil
}

// newLock makes the lock before its directory, so that there is never a directory whose lock nobody holds yet.
func newLock(base string) (*os.File, error) {
	for {
		lock, err := os.CreateTemp(base, dirPattern+lockSuffix)
		if err != nil {
			return nil, err
		}
		held, err := hold(lock)
		if held {
			return lock, nil
		}
		lock.Close()
		os.Remove(lock.Name())
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", lock.Name(), err)
		}
		// Another host's sweep was quicker: take another name.
	}
}

// hold locks a new file, unless a sweep has it, or had it: one that has come and gone between the file's making and its locking has removed
// its name, and no later sweep would find the directory.
func hold(lock *os.File) (held bool, err error) {
	if err := tryLock(lock); err != nil {
		if isLocked(err) {
			return false, nil
		}
		return false, err
	}
	ours, err := lock.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(lock.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, named), err
}

const lockSuffix = ".lock"

// sweep removes what hosts that were killed left in base. Others' files do not let themselves be opened or removed.
func sweep(base string) {
	locks, err := filepath.Glob(filepath.Join(base, dirPattern+lockSuffix))
	if err != nil {
		return
	}
	for _, name := range locks {
		lock, err := openOwn(name)
		if err != nil {
			continue
		}
		d := &privateDir{path: strings.TrimSuffix(name, lockSuffix), lock: lock}
		if tryLock(lock) != nil {
			lock.Close() // its host lives
			continue
		}
		d.remove()
	}
}

// remove needs the lock.
func (d *privateDir) remove() error {
	defer d.lock.Close()
	if err := os.RemoveAll(d.path); err != nil {
		return err
	}
	return os.Remove(d.lock.Name())
}
