package main

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent has this process told to end when its parent does, however that came: nobody reads what an orphan of make finds out, and its tests
// would disturb those of the next run.
func endWithParent() {
	runtime.LockOSThread() // the system tells the process as long as the thread that asked is there; main's always is
	parent := os.Getppid()
	if prctl(syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM)) != nil {
		return
	}
	if os.Getppid() != parent { // it died before
		os.Exit(1)
	}
}

// apart gives a guard a session of its own: a signal to the gate's group is none to it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// adopt makes the children of descendants that end this process's own.
func adopt() error {
	const PR_SET_CHILD_SUBREAPER = 36
	return os.NewSyscallError("prctl", prctl(PR_SET_CHILD_SUBREAPER, 1))
}

func prctl(option, value uintptr) error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, option, value, 0); errno != 0 {
		return errno
	}
	return nil
}

// descendants are all processes below this one that have not ended.
func descendants() (pids []int) {
	children := map[int][]int{}
	all, _ := os.ReadDir("/proc")
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil { // it has ended since
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, ...
		if parent, err := strconv.Atoi(fields[1]); err == nil && fields[0] != "Z" {
			children[parent] = append(children[parent], pid)
		}
	}
	for next := children[os.Getpid()]; len(next) > 0; {
		pids = append(pids, next[0])
		next = append(next[1:], children[next[0]]...)
	}
	return pids
}

// kill kills all descendants.
func kill(int) {
	for _, pid := range descendants() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// unmount takes away what is mounted below a directory.
func unmount(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`) // undoes what the list makes of some characters
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {        // what is on another mount comes after it
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			syscall.Unmount(plain.Replace(fields[4]), syscall.MNT_DETACH)
		}
	}
}

// commandLine is what a process was started with, cut where it is long.
func commandLine(pid int) string {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return string(bytes.ReplaceAll(bytes.TrimRight(line[:min(len(line), 300)], "\x00"), []byte{0}, []byte{' '}))
}
