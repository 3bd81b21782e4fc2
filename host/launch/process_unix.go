//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	sigTerm = unix.SIGTERM
	sigKill = unix.SIGKILL
	sigQuit = unix.SIGQUIT
	sigCont = unix.SIGCONT
)

// sendSignal needs a pid that is not reaped yet.
func sendSignal(pid int, sig os.Signal, group bool) error {
	if group {
		pid = -pid
	}
	err := unix.Kill(pid, sig.(unix.Signal))
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// readNow reads what is in a pipe, and is at its end when there is nothing.
func readNow(pipe *os.File, p []byte) (int, error) {
	c, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	if cErr := c.Read(func(fd uintptr) bool {
		for n, err = unix.Read(int(fd), p); err == unix.EINTR; n, err = unix.Read(int(fd), p) {
		}
		return true
	}); cErr != nil {
		return 0, cErr
	}
	if n <= 0 || err != nil { // EAGAIN: somebody still has it open
		return 0, io.EOF
	}
	return n, nil
}

func exitStatus(s *os.ProcessState) (code int, signal string) {
	if s == nil {
		return -1, "unknown"
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -1, unix.SignalName(ws.Signal())
	}
	return s.ExitCode(), ""
}

// startError tells apart what trying again can mend.
func startError(path string, err error) error {
	e := &Error{Reason: ReasonNotExecutable, Path: path, Cause: err}
	switch {
	case errors.Is(err, unix.ENOENT):
		e.Message = fmt.Sprintf("cannot execute %s: the interpreter or loader that it names does not exist here: %v", path, err)
	case errors.Is(err, unix.ENOEXEC):
		e.Message = fmt.Sprintf("cannot execute %s: it is no program for this machine: %v", path, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		e.Message = fmt.Sprintf("cannot execute %s: not allowed; check its mode, and that its file system is not mounted noexec: %v", path, err)
	default:
		e.Reason = ReasonStart
		e.Message = fmt.Sprintf("cannot start %s now: %v", path, err)
	}
	return e
}
