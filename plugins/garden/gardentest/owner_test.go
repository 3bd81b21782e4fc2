//go:build linux

package gardentest

import (
	"io/fs"
	"syscall"
)

func ownerOf(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
