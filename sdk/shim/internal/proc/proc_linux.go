// Package proc finds, signals and counts processes by what /proc tells. Where /proc is not mounted it finds nothing, and says so.
package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stat is what the kernel tells of a process.
type Stat struct {
	PID, Parent, Group int
	Zombie             bool
	started            uint64 // in ticks since boot: with the pid, it tells two processes of one number apart
}

// Read gives the state of one process.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, err
	}
	// "pid (name) state ppid pgrp …": the name may hold anything, so the fields are counted from its end.
	end := bytes.LastIndexByte(b, ')')
	f := bytes.Fields(b[end+1:])
	if end < 0 || len(f) < 20 {
		return Stat{}, errors.New("/proc tells less of a process than it should")
	}
	number := func(i int) uint64 {
		n, _ := strconv.ParseUint(string(f[i]), 10, 64)
		return n
	}
	return Stat{
		PID: pid, Parent: int(number(1)), Group: int(number(2)), Zombie: (f[0][0] == 'Z' || f[0][0] == 'X') && number(17) < 2, // its first thread may end before the others
		started: number(19),
	}, nil
}

// Descendants lists those of a process that are no zombies, children before their own children. What skip says is left out with all
// below it; nil skips nothing.
func Descendants(of int, skip func(pid int) bool) ([]Stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	children := make(map[int][]Stat)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := Read(pid); err == nil { // else it is gone
			children[s.Parent] = append(children[s.Parent], s)
		}
	}
	if len(children) == 0 {
		return nil, errors.New("/proc is there but not mounted")
	}
	var all []Stat
	next := []int{of}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, s := range children[parent] {
			if skip != nil && skip(s.PID) {
				continue
			}
			next = append(next, s.PID)
			if !s.Zombie {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// Signal signals exactly that process: not one that has got its number since.
func (s Stat) Signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(s.PID, 0)
	if err == unix.ENOSYS || err == unix.EPERM { // an old kernel, or a filter of system calls that does not know it
		if now, err := Read(s.PID); err != nil || now.started != s.started {
			return unix.ESRCH
		}
		return unix.Kill(s.PID, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := Read(s.PID); err != nil || now.started != s.started {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// Reap collects every child that has ended and tells of each. It returns whether there are children left.
func Reap(tell func(pid int, status unix.WaitStatus, usage unix.Rusage)) (left bool) {
	for {
		var status unix.WaitStatus
		var usage unix.Rusage
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, &usage)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false
		case pid == 0:
			return true
		default:
			tell(pid, status, usage)
		}
	}
}
