//go:build linux

package onnomad

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// awaitGone waits for the end of all processes of an allocation. Zombies can write nothing.
func awaitGone(ctx context.Context, dir, alloc string) error {
	for {
		pids, err := processes(dir, alloc)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := awaitExit(ctx, pid); err != nil {
				return fmt.Errorf("process %d of allocation %s still lives: %w", pid, alloc, err)
			}
		}
	}
}

const lookMillis = 100 // for ctx

func awaitExit(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, lookMillis)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil
		}
	}
}

// processes finds those that belong to an allocation: by their root, working directory or program, or by their control group.
func processes(dir, alloc string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && owns(pid, dir, alloc) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func owns(pid int, dir, alloc string) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	exe, err := os.Readlink(proc + "exe")
	if err != nil || exe == "" {
		return false // it has ended
	}
	for _, link := range []string{"cwd", "root", "exe"} {
		if to, err := os.Readlink(proc + link); err == nil && (to == dir || strings.HasPrefix(to, dir+"/")) {
			return true
		}
	}
	groups, err := os.ReadFile(proc + "cgroup")
	return err == nil && strings.Contains(string(groups), "/"+alloc+".")
}
