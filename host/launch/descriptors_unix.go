//go:build unix

package launch

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// onlyThese gives what to start a program with so that it has these files and no other. A descriptor that is not marked close-on-exec, such as one that this
// process got from whoever started it, would reach the plugin, and containers by way of it. The place of each is left empty, which has it closed between fork and
// exec: in this process nothing changes, for it may mean to pass a descriptor on to a program of its own. One that another thread opens without the mark between
// this look and the fork is missed: Go opens none like that, C may.
func onlyThese(files []*os.File) []*os.File {
	highest := -1
	open, err := os.ReadDir("/dev/fd")
	if err != nil { // the system does not list them
		return files
	}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			highest = max(highest, fd)
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil && highest >= 0 && uint64(highest)+spareFiles > uint64(limit.Cur) {
		highest = int(limit.Cur) - spareFiles // above the empty places the child needs some for a moment
	}
	for len(files) <= highest {
		files = append(files, nil)
	}
	return files
}

// spareFiles is how many descriptors os.StartProcess may need above those that it is given: one for each of them that moves, and its own pipe.
const spareFiles = 8
