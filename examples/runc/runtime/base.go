//go:build linux

package runtime

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/slipway-run/slipway/sdk"
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
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return "", &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonImage, Cause: err,
			Message: fmt.Sprintf("a container without an image needs busybox on the machine (%v): install busybox-static, or set \"rootfs\"", err)}
	}
	made := filepath.Join(w.drafts(), rand.Text())
	defer os.RemoveAll(made)
	if err := makeBase(ctx, busybox, made); err != nil {
		return "", sdk.NewInternal(err, "making a root with busybox: %v", err)
	}
	err = os.Rename(made, dir)
	if errors.Is(err, fs.ErrExist) { // somebody else has made it
		err = nil
	}
	return dir, err
}

// makeBase makes what every script may expect.
func makeBase(ctx context.Context, busybox, dir string) error {
	for path, mode := range map[string]fs.FileMode{"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o777 | fs.ModeSticky, "usr": 0o755, "var/tmp": 0o777 | fs.ModeSticky} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for path, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	program := filepath.Join(dir, "bin", "busybox")
	if err := copyFile(ctx, busybox, program); err != nil {
		return err
	}
	if err := os.Chmod(program, 0o755); err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return err
	}
	for _, applet := range strings.Fields(string(applets)) {
		// As "busybox --install" does: a link of this kind costs a tenth of a symbolic one, in every copy.
		if err := os.Link(program, filepath.Join(dir, "bin", applet)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, link := range []string{"sbin", "usr/bin", "usr/sbin"} {
		target := strings.Repeat("../", strings.Count(link, "/")) + "bin"
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	return nil
}
