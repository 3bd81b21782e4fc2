//go:build linux

package gardentest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sweep clears away what test binaries have left that were killed: nobody holds the locks of their directories.
func sweep(ctx context.Context, t testing.TB) {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*", marker))
	if err != nil {
		t.Logf("gardentest: %v", err)
	}
	for _, mark := range marks {
		dir := filepath.Dir(mark)
		lock, err := tryLock(dir)
		if err != nil {
			continue // in use, another user's, or gone
		}
		if err := clearAbandoned(ctx, dir); err != nil {
			t.Logf("gardentest: clearing away what an earlier test left: %v", err)
		}
		lock.Close()
	}
}

func clearAbandoned(ctx context.Context, dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if err := killAll(ctx, func(proc string) bool { return livesIn(proc, dir) }); err != nil {
		return err
	}
	return clear(ctx, dir)
}

// livesIn tells whether the working directory of a process, given as its directory in /proc, is dir: that is so with the servers and with those they start.
func livesIn(proc, dir string) bool {
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	return err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/"))
}

// killAll kills the processes that are among those meant, until there are none, and awaits their ends.
func killAll(ctx context.Context, meant func(proc string) bool) error {
	for {
		procs, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		found := false
		for _, proc := range procs {
			if !meant(proc) {
				continue
			}
			found = true
			if err := killOne(ctx, proc, meant); err != nil {
				return err
			}
		}
		if !found {
			return nil
		}
	}
}

// killOne looks again once the pid is pinned, so that no stranger is hit who has it by now.
func killOne(ctx context.Context, proc string, meant func(proc string) bool) error {
	pid, err := strconv.Atoi(filepath.Base(proc))
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if !meant(proc) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 50) // ctx is looked at in between
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("awaiting the end of process %d: %w", pid, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("process %d was killed and does not end: %w", pid, ctx.Err())
		}
	}
}
