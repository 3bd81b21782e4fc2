//go:build darwin || freebsd || linux

package store

import "golang.org/x/sys/unix"

// free is how many bytes this user may still write on the disk of dir; negative: it cannot be told.
func free(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}
