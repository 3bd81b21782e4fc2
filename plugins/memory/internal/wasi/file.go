package wasi

import (
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/slipway-run/slipway/plugins/memory/internal/tree"
)

// file is an open file or directory of a program.
type file struct {
	seeker[int64]
	files  *files
	f      *tree.File
	append bool
}

// seeker has the one method whose signature, as wazero wants it, vet would take for a mistake were it spelled out.
type seeker[N ~int64] struct{ f *tree.File }

func (s seeker[N]) Seek(offset N, whence int) (N, experimental.Errno) {
	at, err := s.f.Seek(int64(offset), whence)
	return N(at), errnoOf(err)
}

func (f *file) Stat() (sys.Stat_t, experimental.Errno) { return statOf(f.f.Stat()) }

func (f *file) Dev() (uint64, experimental.Errno) {
	st, errno := f.Stat()
	return st.Dev, errno
}

func (f *file) Ino() (sys.Inode, experimental.Errno) {
	st, errno := f.Stat()
	return st.Ino, errno
}

func (f *file) IsDir() (bool, experimental.Errno) {
	st, errno := f.Stat()
	return st.Mode.IsDir(), errno
}

func (f *file) IsAppend() bool { return f.append }

func (f *file) SetAppend(enable bool) experimental.Errno {
	f.f.SetAppend(enable)
	f.append = enable
	return 0
}

func (f *file) Read(p []byte) (int, experimental.Errno) {
	n, err := f.f.Read(p)
	return n, errnoOf(err)
}

func (f *file) Pread(p []byte, off int64) (int, experimental.Errno) {
	n, err := f.f.ReadAt(p, off)
	return n, errnoOf(err)
}

func (f *file) Write(p []byte) (int, experimental.Errno) {
	n, err := f.f.Write(p)
	return n, errnoOf(err)
}

func (f *file) Pwrite(p []byte, off int64) (int, experimental.Errno) {
	n, err := f.f.WriteAt(p, off)
	return n, errnoOf(err)
}

func (f *file) Truncate(size int64) experimental.Errno { return errnoOf(f.f.Truncate(size)) }

// Sync and Datasync have nothing to do: there is no disk.
func (f *file) Sync() experimental.Errno     { return 0 }
func (f *file) Datasync() experimental.Errno { return 0 }

func (f *file) Readdir(n int) ([]experimental.Dirent, experimental.Errno) {
	entries, err := f.f.ReadDir(n)
	var list []experimental.Dirent
	for _, e := range entries {
		d := experimental.Dirent{Name: e.Name(), Type: e.Type()}
		if info, err := e.Info(); err == nil {
			st, _ := statOf(info, nil)
			d.Ino = st.Ino
		}
		list = append(list, d)
	}
	return list, errnoOf(err)
}

func (f *file) Utimens(_, mtime int64) experimental.Errno {
	if mtime == experimental.UTIME_OMIT {
		return 0
	}
	return errnoOf(f.f.Chtimes(time.Unix(0, mtime)))
}

func (f *file) Close() experimental.Errno {
	delete(f.files.open, f)
	return errnoOf(f.f.Close())
}

var (
	_ experimental.FS   = (*files)(nil)
	_ experimental.File = (*file)(nil)
)
