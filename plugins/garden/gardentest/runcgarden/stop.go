//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// stopGrace is what processes have between TERM and KILL.
const stopGrace = 10 * time.Second

// Stop ends all processes but process 1: with TERM, and after a grace with KILL; with kill at once.
func (c *container) Stop(kill bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	info, err := c.state(ctx)
	if err != nil {
		return err
	}
	if info.PID == 0 {
		return nil // all ended with process 1
	}
	if !kill {
		graceful, cancel := context.WithTimeout(ctx, stopGrace)
		defer cancel()
		if err := signalOthers(graceful, info.PID, unix.SIGTERM); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return signalOthers(ctx, info.PID, unix.SIGKILL)
}

// signalOthers signals what runs beside process 1 until nothing does. Each process gets the signal once.
func signalOthers(ctx context.Context, first int, signal unix.Signal) error {
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first))
	if err != nil {
		return fmt.Errorf("process 1: %w", err)
	}
	done := make(map[int]int) // pidfds by pid; an open one keeps its pid from being told of another
	defer func() {
		for _, fd := range done {
			unix.Close(fd)
		}
	}()
	for {
		pids, err := members(space, first)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			if _, ok := done[pid]; ok {
				continue
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err != nil {
				return err
			}
			if s, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || s != space {
				unix.Close(fd) // another process by now
				continue
			}
			done[pid] = fd
			if err := unix.PidfdSendSignal(fd, signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		for _, pid := range pids {
			if fd, ok := done[pid]; ok {
				if err := awaitEnd(ctx, fd); err != nil {
					return err
				}
				unix.Close(fd)
				delete(done, pid)
			}
		}
	}
}

// members are the processes of a pid namespace, without its first and the dead.
func members(space string, first int) ([]int, error) {
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, link := range links {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err != nil || pid == first {
			continue
		}
		if s, err := os.Readlink(link); err == nil && s == space { // the dead have no namespaces
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// awaitEnd waits until the process behind a pidfd has ended.
func awaitEnd(ctx context.Context, pidfd int) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 50) // ctx is looked at in between
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
