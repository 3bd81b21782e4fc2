package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	guardArg  = "guard" // what makes this program a guard: gate guard GRACE PROGRAM ARGUMENT...
	leftCode  = 3       // its exit code where something was left running; go test itself ends with 0, 1 or 2
	startCode = 4

	patience = 10 * time.Second // from the interrupt to the kill
)

// guard runs a command and returns its exit code once nothing is left of all that the command started, sessions and containers of its
// own included: whoever loses its parent below a guard becomes the guard's child. Tests start servers and containers, and one that runs
// on would disturb the next run. So what is still there a grace after the command is named, killed, and an error. So is a file that it left
// in the directory for temporary files, which is one of its own; whatever is mounted there goes, too.
//
// The end of asks, which is the gate's end where it was killed, interrupts the command, as does a signal that would end the guard; ten seconds later all
// are killed, and nothing more is said.
func guard(asks io.Reader, args []string) int {
	grace, err := time.ParseDuration(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return startCode
	}
	temp, err := os.MkdirTemp("", "gate") // a short name, for there are sockets in it
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return startCode
	}
	code, asked := follow(asks, temp, grace, args[1:])
	if code <= 1 && !asked {
		for _, file := range files(temp) {
			fmt.Fprintf(os.Stderr, "left behind: %s\n", file)
			code = leftCode
		}
	}
	if err := removeAll(temp); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
	}
	return code
}

// follow runs the command until nothing that it started is left.
func follow(asks io.Reader, temp string, grace time.Duration, argv []string) (code int, killed bool) {
	leader, err := start(argv, temp)
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return startCode, false
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // until this process ends
		io.Copy(io.Discard, asks)
		signals <- os.Interrupt
	}()
	children := make(chan child)
	go reap(children)

	asked := (<-chan os.Signal)(signals)
	var ended, left, killing bool
	var interrupted, late <-chan time.Time
	for {
		select {
		case c, more := <-children:
			switch {
			case !more && left:
				return leftCode, false
			case !more:
				return code, killing
			case c.pid == leader:
				ended, code, late = true, c.code, time.After(grace)
				killing = killing || interrupted != nil
			}
		case <-asked:
			asked, interrupted = nil, time.After(patience)
			killing = ended
			syscall.Kill(-leader, syscall.SIGINT)
		case <-interrupted:
			killing = true
		case <-late:
			left, killing = true, true
			for _, p := range descendants() {
				fmt.Fprintf(os.Stderr, "left running: %d %s\n", p, commandLine(p))
			}
		}
		if killing { // after each end, too: that of a parent tells of children which were not to be seen before
			kill(leader)
		}
	}
}

// start starts the command, without input and in a process group of its own.
func start(argv []string, temp string) (pid int, err error) {
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil { // users of containers get in, too
		return 0, err
	}
	if err := adopt(); err != nil {
		return 0, err
	}
	if err := os.Setenv("TMPDIR", temp); err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	pid, err = syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{null.Fd(), 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, &os.PathError{Op: "start", Path: argv[0], Err: err}
	}
	return pid, nil
}

// files are what is below a directory, but for directories: slipway keeps one for all commands of a user.
func files(dir string) (all []string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			all = append(all, path)
		}
		return nil
	})
	return all[:min(len(all), 20)]
}

// removeAll removes a directory, what is mounted in it first.
func removeAll(dir string) error {
	unmount(dir)
	return os.RemoveAll(dir)
}

// child is one that has ended, a stranger's perhaps.
type child struct{ pid, code int }

// reap tells each child that ends, and closes the channel when there is none any more.
func reap(ends chan<- child) {
	defer close(ends)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			return
		case status.Signaled():
			ends <- child{pid, 128 + int(status.Signal())}
		default:
			ends <- child{pid, status.ExitStatus()}
		}
	}
}
