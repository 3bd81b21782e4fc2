// Command blocked executes its arguments with all signals blocked, as a careless runtime may. Without any it does nothing for ever.
package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func main() {
	runtime.LockOSThread()
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil)
	if len(os.Args) < 2 {
		for {
			_ = unix.Pause()
		}
	}
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "blocked:", err)
	os.Exit(1)
}
