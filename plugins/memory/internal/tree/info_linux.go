package tree

import (
	"syscall"

	"github.com/slipway-run/slipway/internal/filemode"
)

func (a attr) sys() any {
	st := &syscall.Stat_t{Dev: a.dev, Ino: a.ino, Mode: filemode.ToPOSIX(a.mode), Uid: a.uid, Gid: a.gid, Size: a.size}
	put(&st.Nlink, int64(a.nlink))
	put(&st.Blksize, 4096)
	put(&st.Blocks, (a.size+511)/512)
	put(&st.Mtim.Sec, a.mtime.Unix())
	put(&st.Mtim.Nsec, int64(a.mtime.Nanosecond()))
	st.Atim, st.Ctim = st.Mtim, st.Mtim
	return st
}

// put stores v in a field whose width depends on the architecture.
func put[T ~int32 | ~int64 | ~uint32 | ~uint64](field *T, v int64) { *field = T(v) }
