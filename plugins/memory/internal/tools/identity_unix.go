//go:build unix

package tools

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity names an inode, "" if that cannot be known.
func identity(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Dev, ":", st.Ino)
	}
	return ""
}

// ids are what else a listing shows of an inode.
func ids(info fs.FileInfo) (inode, links uint64, uid, gid uint32) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), uint64(st.Nlink), st.Uid, st.Gid
	}
	return 0, 1, 0, 0
}
