package tree

import (
	"syscall"

	"github.com/slipway-run/slipway/internal/filemode"
)

func (a attr) sys() any {
	mtime := syscall.Timespec{Sec: a.mtime.Unix(), Nsec: int64(a.mtime.Nanosecond())}
	return &syscall.Stat_t{
		Dev: int32(a.dev), Ino: a.ino, Mode: uint16(filemode.ToPOSIX(a.mode)), Nlink: uint16(a.nlink),
		Uid: a.uid, Gid: a.gid, Size: a.size, Blksize: 4096, Blocks: (a.size + 511) / 512,
		Atimespec: mtime, Mtimespec: mtime, Ctimespec: mtime,
	}
}
