package main

import (
	"errors"
	"fmt"
	"io"
	"os"
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
// on would disturb the next run. So what is still there a grace after the command is named, killed, and an error.
//
// The end of asks, which is the gate's end where it was killed, interrupts the command; ten seconds later all are killed.
func guard(asks io.Reader, args []string) int {
	grace, err := time.ParseDuration(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return startCode
	}
	leader, err := start(args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		return startCode
	}
	asked := make(chan struct{})
	go func() { // until this process ends
		io.Copy(io.Discard, asks)
		close(asked)
	}()
	children := make(chan child)
	go reap(children)

	var code int
	var ended, left, killing bool
	var interrupted, late <-chan time.Time
	for {
		select {
		case c, more := <-children:
			switch {
			case !more && left:
				return leftCode
			case !more:
				return code
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
func start(argv []string) (pid int, err error) {
	if err := adopt(); err != nil {
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
