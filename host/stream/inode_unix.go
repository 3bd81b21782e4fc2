//go:build unix

package stream

import (
	"io/fs"
	"syscall"
)

// Neither may a named pipe that took a file's place block the packer, nor a link lead it elsewhere.
const (
	openFile = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
	openDir  = syscall.O_DIRECTORY | syscall.O_NOFOLLOW
)

// inode tells files apart, whatever their names.
type inode struct{ dev, ino uint64 }

func inodeOf(info fs.FileInfo) (id inode, uid, gid int, links uint64) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, 0, 0, 1
	}
	return inode{uint64(st.Dev), uint64(st.Ino)}, int(st.Uid), int(st.Gid), uint64(st.Nlink)
}

// sameDevice tells whether two things are on one file system, so that one can be renamed to the place of the other.
func sameDevice(a, b fs.FileInfo) bool {
	x, _, _, _ := inodeOf(a)
	y, _, _, _ := inodeOf(b)
	return x.dev == y.dev
}
