//go:build unix

package host

import (
	"errors"
	"os"
)

// syncDir puts the names in a directory on the disk: a row that outlives the machine's power must not name a blob that has none.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
