package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// process is what /proc says of one.
type process struct {
	PID   int      `json:"pid"`
	State string   `json:"state"` // a letter; Z is a zombie, T a halted one
	Args  []string `json:"args"`  // none of a zombie
}

// processes prints a line of JSON for each process that it sees.
func processes([]string) (int, error) {
	all, err := list()
	if err != nil {
		return 0, err
	}
	out := json.NewEncoder(os.Stdout)
	for _, p := range all {
		if err := out.Encode(p); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// noZombies waits until there is no dead process that nobody has waited for, and says "none".
func noZombies([]string) (int, error) {
	for {
		all, err := list()
		if err != nil {
			return 0, err
		}
		dead := 0
		for _, p := range all {
			if p.State == "Z" {
				dead++
			}
		}
		if dead == 0 {
			return printTexts([]string{"none\n"})
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func list() ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		state, err := stateOf(e.Name())
		if err != nil {
			continue // it has ended meanwhile
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil {
			continue
		}
		p := process{PID: pid, State: state}
		if text := strings.TrimSuffix(string(line), "\x00"); text != "" {
			p.Args = strings.Split(text, "\x00")
		}
		all = append(all, p)
	}
	return all, nil
}

// stateOf gives the letter of a process's state.
func stateOf(pid string) (string, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", err
	}
	_, after, ok := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	if !ok || after == "" {
		return "", fmt.Errorf("/proc/%s/stat says %q", pid, stat)
	}
	return after[:1], nil
}

// awaitState waits until a process is in a state: PID STATE.
func awaitState(args []string) (int, error) {
	return two(args, func(pid, want string) error {
		for {
			state, err := stateOf(pid)
			if err != nil || state == want {
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// openFiles prints how many descriptors all processes that it sees have open. What it may not look at has none.
func openFiles([]string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Println(len(all))
	return 0, err
}

// forks makes children that do nothing until no more can be made, or N are there; it says how many, and "full", and waits for ever. From the first
// child on Go's runtime must not be asked for anything: it might want a thread, which is one process more, and end for want of it.
func forks(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	most, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	said := make([][]byte, most+1)
	for i := range said {
		said[i] = []byte(strconv.Itoa(i) + " full\n")
	}
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	forkAll(said)
	return 0, nil
}

//go:nosplit
func forkAll(said [][]byte) {
	n := 0
	for n < len(said)-1 {
		pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			break
		}
		if pid == 0 {
			for {
				syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		n++
	}
	text := said[n]
	syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	for {
		syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
