package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

func systemVerbs() map[string]verb {
	return map[string]verb{
		"trap": trap, "mark": mark, "ignore": ignore,
		"orphan": orphan, "orphans": orphans, "spawn": spawn, "wait": wait, "processes": processes, "no-zombies": noZombies, "await-state": awaitState, "forks": forks,
		"descriptors": descriptors, "open-files": openFiles, "hold": hold, "keep": keep, "mkfifo": mkfifo, "umask": umask,
		"tty": tty, "size": printSize, "resized": resized, "raw": raw, "noecho": noEcho,
	}
}

func owner(info fs.FileInfo) (uid, gid, links int) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, -1, -1
	}
	return int(s.Uid), int(s.Gid), int(s.Nlink)
}

// plainSignals gives signals back the effect that they have on any other program: Go's runtime handles them all, and takes no notice
// of some. Those that are ignored stay so, for whoever started the probe has asked for that.
func plainSignals() {
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		if signal.Ignored(s) {
			continue
		}
		var action [4]uintptr // struct sigaction of the kernel: handler (0 is the default), flags, restorer, mask
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

func signals() map[string]os.Signal {
	return map[string]os.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH, "CONT": syscall.SIGCONT}
}

// trap says "ready" once it handles SIGNAL, "caught" when that has come, and exits with CODE.
func trap(args []string) (int, error) {
	if len(args) != 2 {
		return 0, errUsage
	}
	ch, ok := handle(args[0])
	code, err := strconv.Atoi(args[1])
	if !ok || err != nil {
		return 0, errUsage
	}
	if _, err := os.Stdout.WriteString("ready\n"); err != nil {
		return 0, err
	}
	<-ch
	if _, err := os.Stdout.WriteString("caught\n"); err != nil {
		return 0, err
	}
	os.Exit(code)
	return 0, nil
}

// mark makes the file READY once it handles SIGNAL, and HEARD when that has come: SIGNAL READY HEARD.
func mark(args []string) (int, error) {
	if len(args) != 3 {
		return 0, errUsage
	}
	ch, ok := handle(args[0])
	if !ok {
		return 0, errUsage
	}
	if code, err := writeFile([]string{args[1], ""}); err != nil {
		return code, err
	}
	<-ch
	return writeFile([]string{args[2], ""})
}

func handle(name string) (<-chan os.Signal, bool) {
	s, ok := signals()[name]
	if !ok {
		return nil, false
	}
	ch := make(chan os.Signal, 1)
	signal.Ignore(s) // or Go's runtime thinks that it handles it still, which plainSignals has ended behind its back
	signal.Notify(ch, s)
	return ch, true
}

// ignore ignores signals from now on. Of what a child inherits of that, Go's runtime keeps HUP and INT only.
func ignore(args []string) (int, error) {
	return each(args, func(name string) error {
		s, ok := signals()[name]
		if !ok {
			return errUsage
		}
		signal.Ignore(s)
		return nil
	})
}

// self is another probe.
func self(args ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", args...)
	c.Args[0] = os.Args[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	return c
}

// orphan leaves a child behind that holds stdout for an hour and would then say something.
func orphan(args []string) (int, error) {
	if err := self("seq", "nap", "3600000", ";", "print", "late\n").Start(); err != nil {
		return 0, err
	}
	return printTexts([]string{"early\n"})
}

// orphans leaves N children to the container's first process, dead or soon dead, and says "born".
func orphans(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	const litter = 20 // what one parent leaves
	for n > 0 {
		parent := []string{"seq"}
		for range min(n, litter) {
			parent = append(parent, "spawn", "-", "exit", "0", ";")
		}
		if err := self(parent...).Run(); err != nil {
			return 0, err
		}
		n -= litter
	}
	return printTexts([]string{"born\n"})
}

// spawn starts another probe and does not wait for it: KINDS VERB ARGS. KINDS is "-" or, with commas, of "session": in a session of
// its own; "quiet": with nothing open; "orphan": by a parent that has ended when this returns.
func spawn(args []string) (int, error) {
	if len(args) < 2 {
		return 0, errUsage
	}
	c := self(args[1:]...)
	var rest []string
	orphaned := false
	for kind := range strings.SplitSeq(args[0], ",") {
		switch kind {
		case "-":
		case "session":
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			rest = append(rest, kind)
		case "quiet":
			c.Stdin, c.Stdout, c.Stderr = nil, nil, nil
			rest = append(rest, kind)
		case "orphan":
			orphaned = true
		default:
			return 0, errUsage
		}
	}
	if !orphaned {
		return 0, c.Start()
	}
	kinds := "-"
	if len(rest) > 0 {
		kinds = strings.Join(rest, ",")
	}
	return 0, self(append([]string{"spawn", kinds}, args[1:]...)...).Run()
}

// wait waits for all children.
func wait([]string) (int, error) {
	for {
		switch _, err := syscall.Wait4(-1, nil, 0, nil); err {
		case nil, syscall.EINTR:
		case syscall.ECHILD:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// descriptors prints the numbers of what is open. It opens nothing itself.
func descriptors([]string) (int, error) {
	var open []string
	for fd := range 4096 {
		var s syscall.Stat_t
		if syscall.Fstat(fd, &s) == nil {
			open = append(open, strconv.Itoa(fd))
		}
	}
	_, err := fmt.Println(strings.Join(open, " "))
	return 0, err
}

// hold opens N descriptors and keeps them.
func hold(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errUsage
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return 0, err
	}
	for range n {
		if _, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// keep opens a file for writing, for itself and for all children.
func keep(args []string) (int, error) {
	return each(args, func(path string) error {
		_, err := syscall.Open(path, syscall.O_WRONLY, 0)
		return err
	})
}

func mkfifo(args []string) (int, error) {
	return each(args, func(path string) error { return syscall.Mkfifo(path, 0o600) })
}

func umask([]string) (int, error) {
	_, err := fmt.Printf("%04o\n", syscall.Umask(0))
	return 0, err
}
