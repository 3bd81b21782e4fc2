package nomad

import (
	"fmt"
	"os"
	"strings"
)

// thisProcess names this process so that a later one on the same machine can tell whether it still runs. Empty: it cannot be told.
func thisProcess() string {
	where, err := whereabouts()
	if err != nil {
		return ""
	}
	began, err := beginning(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %s", where, os.Getpid(), began)
}

// whereabouts name the machine since it was started, and the space that process ids are of.
func whereabouts() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(boot)) + " " + pids, err
}

// beginning is when a process began, in the kernel's words.
func beginning(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // of which the first is the third of all
	const state, start = 0, 22 - 3
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", os.ErrNotExist // nobody has waited for it yet
	}
	return fields[start], nil
}

// hasEnded tells whether a process of thisProcess's name is known to run no more. What ran elsewhere nobody knows of here.
func hasEnded(name string) bool {
	where, err := whereabouts()
	rest, here := strings.CutPrefix(name, where+" ")
	if err != nil || !here {
		return false
	}
	var pid int
	var began string
	if _, err := fmt.Sscanf(rest, "%d %s", &pid, &began); err != nil || pid <= 0 {
		return false
	}
	now, err := beginning(pid)
	return os.IsNotExist(err) || err == nil && now != began
}
