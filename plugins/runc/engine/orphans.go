//go:build linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// commandPrefix begins the name of the directory that a command has in its container's bundle for as long as its runc lives.
const commandPrefix = "command-"

// endOrphans kills each runc that another engine has left in the middle of a command when it was killed itself. Had that engine just stopped its runc,
// to kill what that had started, the runc never reaps the dead, and the container's process 1 does not end before that is done.
func (e *Engine) endOrphans(ctx context.Context, id string) error {
	entries, err := os.ReadDir(e.bundle(id))
	if err != nil || !slices.ContainsFunc(entries, func(d os.DirEntry) bool { return strings.HasPrefix(d.Name(), commandPrefix) }) {
		return nil // without a bundle there is no command, either
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		if !e.runsCommand(file, id) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		if err := e.endOrphan(ctx, file, pid, id); err != nil {
			return fmt.Errorf("container %q: ending runc (process %d), which another engine has left: %w", id, pid, err)
		}
	}
	return nil
}

// endOrphan kills one and awaits its end. The pid is pinned before it is looked at again, as in killMember.
func (e *Engine) endOrphan(ctx context.Context, file string, pid int, id string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !e.runsCommand(file, id) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return awaitEnd(ctx, fd)
}

// runsCommand tells whether a process is a runc that was started by Exec for a container.
func (e *Engine) runsCommand(cmdline, id string) bool {
	text, err := os.ReadFile(cmdline)
	if err != nil {
		return false // it has ended
	}
	args := strings.Split(string(text), "\x00")
	return len(args) > 4 && filepath.Base(args[0]) == filepath.Base(e.runc) && args[1] == "--root" && args[2] == e.runcRoot() &&
		args[3] == "--log" && strings.HasPrefix(args[4], filepath.Join(e.bundle(id), commandPrefix))
}
