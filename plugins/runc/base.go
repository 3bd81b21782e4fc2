//go:build linux

package runc

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-run/slipway/sdk/machine"
)

// base gives the directory that roots without an image are copies of: the operator's, or one with busybox, which is made once.
func (w *worker) base(ctx context.Context) (string, error) {
	if w.config.Rootfs != "" {
		return w.config.Rootfs, nil
	}
	dir := filepath.Join(w.config.State, "base")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	draft := "New-root-" + rand.Text() // no container's id; without a record it is swept away if this plugin is killed
	unlock, err := w.containers.Make(ctx, draft)
	if err != nil {
		return "", err
	}
	defer unlock()
	defer w.containers.Discard(draft)
	made := w.containers.Path(draft, "root")
	if err := os.Mkdir(made, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(made, 0o755); err != nil { // whatever the umask
		return "", err
	}
	if err := machine.Busybox(ctx, made); err != nil {
		return "", err
	}
	err = os.Rename(made, dir)
	if errors.Is(err, fs.ErrExist) { // somebody else has made it
		err = nil
	}
	return dir, err
}
