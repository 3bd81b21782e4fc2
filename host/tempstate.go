package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/slipway-run/slipway/host/store"
)

// makeTempState makes a state directory that lives as long as its host, after it has swept those whose hosts died.
func makeTempState() (string, error) {
	base := filepath.Join(os.TempDir(), "slipway-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make a temporary state directory: %w", err)
	}
	fi, err := os.Lstat(base)
	if err != nil {
		return "", fmt.Errorf("make a temporary state directory: %w", err)
	}
	if !fi.IsDir() || fi.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("make a temporary state directory: %s is not a private directory of this user: remove it, or give --state", base)
	}
	if err := sweepTempStates(base); err != nil {
		return "", fmt.Errorf("sweep temporary state directories: %w", err)
	}
	return os.MkdirTemp(base, "state-")
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
