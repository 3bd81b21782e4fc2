//go:build unix && !linux

package launch

import (
	"os"
	"syscall"
)

func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// pinnedPath is the path itself: an open file cannot be executed here, so whoever can replace the file between its check and
// its start is trusted.
func pinnedPath(path string, _ *os.File, files []*os.File) (string, []*os.File) { return path, files }

// awaitExit is false: the end cannot be awaited here without reaping.
func awaitExit(*os.Process) bool { return false }
