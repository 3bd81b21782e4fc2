package launch

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
	sigQuit = syscall.SIGQUIT
	sigCont = syscall.Signal(0)
)

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// pinnedPath is the path itself: an open file cannot be executed here.
func pinnedPath(path string, _ *os.File, files []*os.File) (string, []*os.File) { return path, files }

// onlyThese are the files themselves: here a program gets no handle that is not given to it.
func onlyThese(files []*os.File) []*os.File { return files }

func awaitExit(*os.Process) bool { return false }

// sendSignal can only kill.
func sendSignal(pid int, sig os.Signal, _ bool) error {
	if sig != sigKill {
		return nil
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return os.ErrProcessDone
	}
	defer p.Release()
	return p.Kill()
}

// readNow is at its end at once.
func readNow(*os.File, []byte) (int, error) { return 0, io.EOF }

func exitStatus(s *os.ProcessState) (code int, signal string) {
	if s == nil {
		return -1, "unknown"
	}
	return s.ExitCode(), ""
}

func startError(path string, err error) error {
	return &Error{Reason: ReasonStart, Path: path, Cause: err, Message: fmt.Sprintf("cannot start %s: %v", path, err)}
}
