package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveIfUnlocked removes a state directory that no process has open, and tells whether it did. A directory without a lock
// file is left alone: it may be about to be opened.
func RemoveIfUnlocked(dir string) (bool, error) {
	path := filepath.Join(dir, "lock")
	if _, err := os.Lstat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	f, err := openLocked(path, false)
	if errors.Is(err, errHeld) || errors.Is(err, fs.ErrNotExist) { // the latter: another sweep was quicker
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return true, os.RemoveAll(dir)
}
