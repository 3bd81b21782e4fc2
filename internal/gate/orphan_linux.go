package main

import (
	"os"
	"runtime"
	"syscall"
)

// endWithParent has this process told to end when its parent does, however that came: nobody reads what an orphan of make finds out, and its tests
// would disturb those of the next run.
func endWithParent() {
	runtime.LockOSThread() // the system tells the process as long as the thread that asked is there; main's always is
	const PR_SET_PDEATHSIG = 1
	parent := os.Getppid()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0); errno != 0 {
		return
	}
	if os.Getppid() != parent { // it died before
		os.Exit(1)
	}
}
