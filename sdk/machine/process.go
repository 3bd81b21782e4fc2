//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk/shelf"
)

// Process is a process of this machine that outlives the plugin, such as a container's first one: it is noted in a file, where the
// plugin's next start finds it. A number alone may be another process's by now, so the file tells also when it was started.
type Process struct {
	file string
}

// ProcessIn is the process that is noted in a file, or will be: one below [Container.Dir].
func ProcessIn(file string) Process { return Process{file} }

// Note notes a child of the caller that was not waited for. What ends before that is noted as ended.
func (p Process) Note(pid int) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	when, err := startOf(pid)
	if err != nil {
		return err
	}
	return shelf.WriteFile(p.file, fmt.Appendf(nil, "%d %s %s", pid, when, boot))
}

// PID gives the process's number, if one is noted and it has not ended. A zombie has.
func (p Process) PID() (pid int, runs bool, err error) {
	text, err := os.ReadFile(p.file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	var when, thatBoot string
	if n, _ := fmt.Sscan(string(text), &pid, &when, &thatBoot); n < 3 { // so it had ended when it was noted
		return 0, false, nil
	}
	boot, err := bootID()
	if err != nil || boot != thatBoot {
		return 0, false, err
	}
	now, err := startOf(pid)
	return pid, err == nil && now == when, err
}

// Kill kills the process and waits until it has ended; where it has already, or none is noted, that is a success. The first process of
// a namespace of processes ends after all others there.
func (p Process) Kill(ctx context.Context) error {
	pid, runs, err := p.PID()
	if err != nil || !runs {
		p.reap(pid)
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if _, runs, err := p.PID(); err != nil || !runs { // what was opened may be another of that number
		p.reap(pid)
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	for {
		const tick = 100 // milliseconds until ctx is looked at again
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, tick)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("waiting for the end of process %d: %w", pid, err)
		}
		if n > 0 {
			p.reap(pid)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// reap takes away the zombie that a child of this process is when it has ended.
func (p Process) reap(pid int) {
	if pid > 0 {
		_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // an error says that it is no child, or that somebody has done it
	}
}

// startOf tells when a process was started, in the kernel's own measure; empty: it has ended.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	const start, state = 22 - 3, 0 // of the fields after the name, which may hold anything
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", nil
	}
	return fields[start], nil
}
