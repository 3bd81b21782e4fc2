//go:build unix

package host

import "golang.org/x/sys/unix"

// maxOpenFiles is how many files this process may have open; 0: any number.
func maxOpenFiles() int64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<40 {
		return 0
	}
	return int64(limit.Cur)
}
