//go:build !linux

package shell

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrNoLandlock says that the system cannot confine a process.
var ErrNoLandlock = errors.New("landlock is not available")

// Confine does nothing: only Linux has what it needs.
func Confine(readable, writable []string) (achieved string, err error) {
	return "nothing", fmt.Errorf("confine the process: %w on %s", ErrNoLandlock, runtime.GOOS)
}
