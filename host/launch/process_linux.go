package launch

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// pinnedPath gives a path by which the child executes the open file. As its fourth file it stays open in the child, which
// lets scripts work too: their interpreter opens that path again.
func pinnedPath(_ string, f *os.File, files []*os.File) (string, []*os.File) {
	return "/proc/self/fd/3", append(files, f)
}

// awaitExit returns when the process has ended, and leaves it unreaped; false: it cannot tell.
func awaitExit(p *os.Process) bool {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
