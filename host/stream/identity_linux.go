package stream

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// identity is the number of the directory on its file system and, where that tells it, the moment of its making: numbers are given anew. The
// device has none that stays across boots.
func identity(dir string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return "", err
	}
	id := fmt.Sprintf("%d", st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		id += fmt.Sprintf("/%d.%09d", st.Btime.Sec, st.Btime.Nsec)
	}
	return id, nil
}
