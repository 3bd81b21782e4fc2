//go:build linux

package machine

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

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/volumedir"
)

// base gives the directory that roots without an image are copies of: the author's, or one that is made by whoever needs it first.
func (w *Worker) base(ctx context.Context) (string, error) {
	if w.o.Base != "" {
		return w.o.Base, nil
	}
	dir := filepath.Join(w.o.Dir, "root")
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
	filled := w.containers.Path(draft, "root")
	if err := os.Mkdir(filled, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(filled, 0o755); err != nil { // whatever the umask
		return "", err
	}
	if err := w.o.Root(ctx, filled); err != nil {
		return "", err
	}
	if err := syncAll(filled); err != nil { // it is for good: a loss of power must not leave it in parts
		return "", err
	}
	err = os.Rename(filled, dir)
	if errors.Is(err, fs.ErrExist) { // somebody else has made it
		err = nil
	}
	return dir, err
}

// syncAll has the file system that a directory is on write everything to its disk.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// Busybox fills a directory with what every script may expect: the machine's busybox under all of its names, which must be a static program
// (Debian's busybox-static), the users root and nobody, and places for temporary files.
func Busybox(ctx context.Context, dir string) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return &sdk.Error{Class: sdk.Invalid, Reason: sdk.ReasonImage, Cause: err,
			Message: fmt.Sprintf("a container without an image needs busybox on the machine (%v): install busybox-static", err)}
	}
	if err := fillBusybox(ctx, busybox, dir); err != nil {
		return sdk.NewInternal(err, "making a root with busybox: %v", err)
	}
	return nil
}

func fillBusybox(ctx context.Context, busybox, dir string) error {
	for path, mode := range map[string]fs.FileMode{"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o777 | fs.ModeSticky, "usr": 0o755, "var/tmp": 0o777 | fs.ModeSticky} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
		"etc/group":  "root:x:0:\nnogroup:x:65534:\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			return err
		}
	}
	busybox, err := filepath.EvalSymlinks(busybox)
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "bin", "busybox")
	if err := volumedir.CopyFile(ctx, busybox, program); err != nil {
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
