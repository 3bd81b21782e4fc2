//go:build linux

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const cgroupRoot = "/sys/fs/cgroup"

// onlyVersion2 tells whether there is just the unified hierarchy.
func onlyVersion2() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// hierarchies are the directories in which a container's cgroup is made.
func hierarchies() ([]string, error) {
	if onlyVersion2() {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if entry.IsDir() { // links are other names of the same
			all = append(all, filepath.Join(cgroupRoot, entry.Name()))
		}
	}
	return all, nil
}

// Controllers tells which limits hold on this machine: of "memory", "pids" and "cpu" those that there are.
func (e *Engine) Controllers() []string {
	var enabled []string
	if text, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		enabled = strings.Fields(string(text)) // runc passes them on to its children
	}
	var there []string
	for name, file := range map[string]string{"memory": "memory.limit_in_bytes", "pids": "cgroup.procs", "cpu": "cpu.cfs_quota_us"} {
		if _, err := os.Stat(filepath.Join(cgroupRoot, name, file)); err == nil || slices.Contains(enabled, name) {
			there = append(there, name)
		}
	}
	slices.Sort(there)
	return there
}

func (e *Engine) checkLimits(s Spec) error {
	there := e.Controllers()
	limited := map[string]bool{"memory": s.MemoryBytes != 0, "pids": s.PIDs != 0, "cpu": s.CPUMillis != 0 || s.CPUShares != 0}
	for name, limit := range limited {
		if limit && !slices.Contains(there, name) {
			return fmt.Errorf("container %q: a limit of %s cannot hold: this machine has no such cgroup controller; see the package's documentation", s.ID, name)
		}
	}
	return nil
}

func countsSwap() bool {
	if onlyVersion2() {
		return true // runc leaves it out by itself where there is none
	}
	_, err := os.Stat(filepath.Join(cgroupRoot, "memory", "memory.memsw.limit_in_bytes"))
	return err == nil
}

// processes are those in a cgroup, by the hierarchies that have it, and in its children where a container made some.
func (e *Engine) processes(id string) ([]int, error) {
	dirs, err := e.cgroupDirs(id)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		f.Close()
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// cgroupDirs are what is left of a container's cgroup, inner ones first.
func (e *Engine) cgroupDirs(id string) ([]string, error) {
	tops, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, top := range tops {
		err := filepath.WalkDir(filepath.Join(top, e.cgroup(id)), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(dirs)
	return dirs, nil
}

// killAll kills what is in a container's cgroup until nothing is, or ctx ends.
func (e *Engine) killAll(ctx context.Context, id string) error {
	for {
		pids, err := e.processes(id)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := e.killMember(ctx, id, pid); err != nil {
				return err
			}
		}
	}
}

// killMember kills one process and awaits its end. The pid is pinned before it is looked up again, so that no stranger who got
// it meanwhile is hit.
func (e *Engine) killMember(ctx context.Context, id string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d of container %q: %w", pid, id, err)
	}
	defer unix.Close(fd)
	pids, err := e.processes(id)
	if err != nil || !slices.Contains(pids, pid) {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d of container %q: %w", pid, id, err)
	}
	return awaitEnd(ctx, fd)
}

// awaitEnd waits until the process behind a pidfd has ended, reaped or not.
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

// removeCgroup takes away what runc left of it, because runc itself was killed.
func (e *Engine) removeCgroup(ctx context.Context, id string) error {
	for {
		if err := e.killAll(ctx, id); err != nil {
			return err
		}
		dirs, err := e.cgroupDirs(id)
		if err != nil || len(dirs) == 0 {
			return err
		}
		busy := false
		for _, dir := range dirs {
			err := unix.Rmdir(dir)
			busy = busy || errors.Is(err, unix.EBUSY)
			if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("removing cgroup %s: %w", dir, err)
			}
		}
		if !busy {
			continue
		}
		select { // the kernel does not tell when a cgroup has let go of its dead
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("cgroups %q are busy: %w", dirs, ctx.Err())
		}
	}
}
