package mutant

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel end a process when the thread that starts it does: nothing is left of a test that was killed.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
