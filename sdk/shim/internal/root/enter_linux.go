package root

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// Enter makes the root and has this program begin anew in it with other arguments, in the directory dir, which need not be in the root. There must be nothing at
// dir/root. It returns an error or not at all: Unsupported where this program may not mount, Invalid where nothing can be mounted at a target. The machine's mounts
// are then as they were, in the eyes of all but the calling goroutine's thread, which is of no more use.
func Enter(p Plan, dir string, argv []string) error {
	runtime.LockOSThread() // for good: a thread has a mount namespace of its own
	fds := &descriptors{}
	defer fds.close()
	program, err := fds.open("/proc/self/exe", 0)
	if err != nil {
		return err
	}
	here, err := fds.open(dir, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return refused(os.NewSyscallError("unshare", err))
	}
	unix.Umask(0o022) // of this thread alone by now
	// What the machine unmounts goes here, too, or its file systems could not be taken away. Nothing of this goes there.
	if err := mount("", "/", unix.MS_REC|unix.MS_SLAVE); err != nil {
		return refused(err)
	}
	m := &maker{dir: path.Join(dir, "root"), fds: fds, ours: make(map[string]bool)}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return err
	}
	if err := m.begin(p.Image); err != nil {
		return err
	}
	mounts := slices.Clone(p.Mounts)
	slices.SortFunc(mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) }) // outer ones first
	for _, v := range mounts {
		if err := m.add(v); err != nil {
			return fmt.Errorf("mounting a volume at %q: %w", v.Target, err)
		}
	}
	if err := pivot(m.root, here); err != nil {
		return err
	}
	err = unix.Exec(magic(program), argv, os.Environ())
	return os.NewSyscallError("exec", err)
}

// pivot makes a mount the root of all and lets go of what was.
func pivot(root, dir int) error {
	if err := unix.Fchdir(root); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil { // which puts the old one over the new one
		return refused(os.NewSyscallError("pivot_root", err))
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	if err := unix.Fchdir(dir); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	return nil
}

// refused is the error of a kernel that does not let this program mount.
func refused(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return unsupported("volumes cannot be mounted here: the shim must be root, with the capability CAP_SYS_ADMIN", err)
	case errors.Is(err, unix.ENOSYS):
		return unsupported("volumes cannot be mounted here: the kernel is older than Linux 5.6", err)
	}
	return err
}

func unsupported(why string, err error) error {
	return &sdk.Error{Class: sdk.Unsupported, Message: fmt.Sprintf("%s: %v", why, err), Cause: err}
}

func mount(source, target string, flags uintptr) error {
	if err := unix.Mount(source, target, "", flags, ""); err != nil {
		return &os.LinkError{Op: "mount", Old: source, New: target, Err: err}
	}
	return nil
}

// magic is the name of what a descriptor stands for, whatever has been mounted over it.
func magic(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// descriptors are open until all are closed together.
type descriptors struct{ all []int }

func (d *descriptors) open(name string, flags int) (int, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return d.keep(fd), nil
}

func (d *descriptors) keep(fd int) int {
	d.all = append(d.all, fd)
	return fd
}

func (d *descriptors) close() {
	for _, fd := range d.all {
		unix.Close(fd)
	}
}
