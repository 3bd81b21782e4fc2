package volumetar

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// Root is an opened directory. Its methods may be called from many goroutines at once; what two archives do to one path is then
// undefined, but confined.
type Root struct {
	dir     *os.File
	options Options
	byHand  bool // openat2 is missing or forbidden
	proc    bool // /proc is the kernel's
}

// Open opens a directory, following symbolic links on the way to it. Renaming the directory later changes nothing for the Root.
func Open(dir string, o Options) (*Root, error) {
	fd, err := again(func() (int, error) { return unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	r := &Root{dir: os.NewFile(uintptr(fd), dir), options: o, proc: hasProc()}
	probe, err := openat2(fd, ".", unix.O_PATH|unix.O_DIRECTORY, strictly)
	if err != nil {
		r.byHand = true
		return r, nil
	}
	unix.Close(probe)
	return r, nil
}

// Close lets go of the directory. Calls that are under way go on, later ones fail.
func (r *Root) Close() error { return r.dir.Close() }

// hold gives one call a descriptor of its own, so that Close cannot pull it away.
func (r *Root) hold() (*tree, error) {
	conn, err := r.dir.SyscallConn()
	if err == nil {
		fd, dupErr := -1, error(nil)
		err = conn.Control(func(own uintptr) { fd, dupErr = dup(int(own)) })
		if err = errors.Join(err, dupErr); err == nil {
			return &tree{fd: fd, byHand: r.byHand, proc: r.proc}, nil
		}
	}
	return nil, sdk.NewInternal(err, "directory %q cannot be used: %v", r.dir.Name(), err)
}

func hasProc() bool {
	var st unix.Statfs_t
	return unix.Statfs("/proc/self/fd", &st) == nil && int64(st.Type) == unix.PROC_SUPER_MAGIC
}

func dup(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// again repeats a system call that a signal interrupted.
func again[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if err != unix.EINTR {
			return v, err
		}
	}
}
