package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// errHeld: another process has the lock.
var errHeld = errors.New("held by another process")

// lock takes the state directory for this process. The lock ends when the file
// is closed, and with the process however it dies; the file itself stays.
func lock(dir string, daemon bool) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := openLocked(path, true)
	if errors.Is(err, errHeld) {
		return nil, holder(dir, path)
	}
	if err != nil {
		return nil, err
	}
	if err := sign(f, daemon); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// daemonHolder is what a daemon calls itself in the lock.
const daemonHolder = "daemon"

// sign writes who holds the lock. It matters to who waits for it only, so a full disk is
// no reason to refuse to run: then is when the host has to clean up.
func sign(f *os.File, daemon bool) error {
	what := "command"
	if daemon {
		what = daemonHolder
	}
	line := fmt.Sprintf("%d %s %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339), what)
	if _, err := f.WriteAt([]byte(line), 0); err != nil {
		return f.Truncate(0)
	}
	return f.Truncate(int64(len(line)))
}

// holder reads who has the lock; what cannot be read is left zero.
func holder(dir, path string) *LockedError {
	e := &LockedError{Dir: dir}
	text, err := os.ReadFile(path)
	if err != nil {
		return e
	}
	var since, what string
	if _, err := fmt.Sscan(string(text), &e.PID, &since, &what); err != nil {
		return e
	}
	e.Since, _ = time.Parse(time.RFC3339, since)
	e.Daemon = what == daemonHolder
	return e
}
