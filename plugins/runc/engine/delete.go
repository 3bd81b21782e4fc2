//go:build linux

package engine

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kill sends a signal to process 1. A container that is not there is ErrNotFound, one that has ended ErrNotRunning. With KILL all
// of the container's processes end, soon after Kill has returned.
func (e *Engine) Kill(ctx context.Context, id string, signal syscall.Signal) error {
	if err := checkID(id); err != nil {
		return err
	}
	_, err := e.call(ctx, id, "kill", id, fmt.Sprint(int(signal)))
	if err == nil {
		return nil
	}
	return e.unfit(ctx, id, err)
}

// unfit puts the state of a container in the place of an error that comes of it.
func (e *Engine) unfit(ctx context.Context, id string, err error) error {
	info, stateErr := e.State(ctx, id)
	switch {
	case stateErr != nil:
		return stateErr
	case info.Status == Stopped:
		return fmt.Errorf("container %q: %w", id, ErrNotRunning)
	}
	return err
}

// Delete kills what runs in a container, half-made or whole, and takes it away. When it returns nil, none of its processes is left
// that could write anything, and nothing of it is on the machine but its rootfs and what was mounted from elsewhere. An id that
// is not there is a success. After an error it can be called again.
//
// Commands that this engine runs in the container end first; their Exec returns ErrNotFound.
func (e *Engine) Delete(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := e.endCommands(ctx, id); err != nil {
		return err
	}
	defer e.admitCommands(id)
	if err := e.endOrphans(ctx, id); err != nil {
		return err
	}
	if err := e.killAll(ctx, id); err != nil {
		return err
	}
	if _, err := e.call(ctx, id, "delete", "--force", id); err != nil {
		return err
	}
	if err := removeMounted(filepath.Join(e.runcRoot(), id)); err != nil {
		return err
	}
	if err := e.removeCgroup(ctx, id); err != nil {
		return err
	}
	if err := e.freeDisk(id); err != nil {
		return err
	}
	return removeTree(e.bundle(id))
}

// removeMounted removes what a runc that was killed has left in its directory of a container. While it begins, its own program is mounted in there, which
// a forced delete does not know of.
func removeMounted(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	for _, at := range slices.Backward(mounts) {
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmounting %s, which a killed runc has left: %w", at, err)
		}
	}
	return os.RemoveAll(dir)
}

// removeTree removes a directory unless something is mounted below it.
func removeTree(dir string) error {
	mounts, err := mountsBelow(dir)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("not removing %s: something is mounted at %q; unmount it first", dir, mounts)
	}
	return os.RemoveAll(dir)
}

// mountsBelow tells what this process sees mounted at a directory or below it.
func mountsBelow(dir string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var mounts []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if at := unescape.Replace(fields[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			mounts = append(mounts, at)
		}
	}
	return mounts, lines.Err()
}
