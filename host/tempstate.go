package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/slipway-run/slipway/host/store"
)

// openTempState opens a state directory that lives as long as its host, after it has swept those whose hosts died.
func openTempState(ctx context.Context) (string, *store.Store, error) {
	base := filepath.Join(os.TempDir(), "slipway-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", nil, fmt.Errorf("make a temporary state directory: %w", err)
	}
	fi, err := os.Lstat(base)
	if err != nil {
		return "", nil, fmt.Errorf("make a temporary state directory: %w", err)
	}
	if !fi.IsDir() || fi.Mode().Perm() != 0o700 {
		return "", nil, fmt.Errorf("make a temporary state directory: %s is not a private directory of this user: remove it, or give --state", base)
	}
	if err := sweepTempStates(base); err != nil {
		return "", nil, fmt.Errorf("sweep temporary state directories: %w", err)
	}
	for {
		dir, err := os.MkdirTemp(base, "state-")
		if err != nil {
			return "", nil, err
		}
		st, err := store.Open(ctx, dir, store.Options{Temporary: true})
		if err == nil {
			return dir, st, nil
		}
		var locked *store.LockedError
		if !errors.As(err, &locked) {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		// Another host's sweep saw the lock in the instant before it was held, and removes the directory: take another.
	}
}

// sweepTempStates removes the directories whose lock nobody holds. They belong to hosts that were killed, and so did all that they
// describe.
func sweepTempStates(base string) error {
	dirs, err := filepath.Glob(filepath.Join(base, "state-*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if _, err := store.RemoveIfUnlocked(dir); err != nil {
			return err
		}
	}
	return nil
}
