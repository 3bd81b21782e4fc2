package shell

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsyscall "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// ErrNoLandlock says that the kernel, or how the program was built, cannot
// confine it.
var ErrNoLandlock = errors.New("landlock is not available")

// Confine takes from the whole process, for good, all access to files but
// reading below readable and reading and writing below writable, and lets it
// execute nothing. Paths that do not exist are left out; what is open stays
// open. Sockets and memory are not touched.
//
// It is best effort: achieved says what the kernel enforces. The error wraps
// ErrNoLandlock if that is nothing, and the process goes on as it was.
func Confine(readable, writable []string) (achieved string, err error) {
	version, err := llsyscall.LandlockGetABIVersion()
	if err != nil || version < 1 {
		return "nothing", fmt.Errorf("confine the process: %w: %v", ErrNoLandlock, err)
	}
	rules := make([]landlock.Rule, 0, len(readable)+len(writable))
	for _, p := range readable {
		rules = append(rules, landlock.PathAccess(readAccess(p), p).IgnoreIfMissing())
	}
	for _, p := range writable {
		rules = append(rules, landlock.PathAccess(writeAccess(p), p).IgnoreIfMissing())
	}
	if err := landlock.V6.BestEffort().RestrictPaths(rules...); err != nil {
		return "nothing", fmt.Errorf("confine the process: %w", err)
	}
	return fmt.Sprintf("landlock version %d: files are read below %q and written below %q only, and nothing is executed", version, readable, writable), nil
}

// Rights by which files are used without executing them.
const (
	readFile = landlock.AccessFSSet(llsyscall.AccessFSReadFile)
	readDir  = landlock.AccessFSSet(llsyscall.AccessFSReadDir)
	write    = landlock.AccessFSSet(llsyscall.AccessFSWriteFile | llsyscall.AccessFSTruncate)
	change   = landlock.AccessFSSet(llsyscall.AccessFSRemoveDir | llsyscall.AccessFSRemoveFile | llsyscall.AccessFSMakeDir |
		llsyscall.AccessFSMakeReg | llsyscall.AccessFSMakeSock | llsyscall.AccessFSRefer)
)

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

func readAccess(p string) landlock.AccessFSSet {
	if isDir(p) {
		return readFile | readDir
	}
	return readFile
}

func writeAccess(p string) landlock.AccessFSSet {
	if isDir(p) {
		return readFile | readDir | write | change
	}
	return readFile | write
}
