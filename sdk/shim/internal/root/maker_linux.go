package root

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/sdk"
)

// maker makes a root. A directory of the machine is never written to: where something is to be mounted in one that lacks the place for it, a directory of the
// container's own is put over it, in which all that is in the machine's is mounted.
type maker struct {
	dir  string // of directories of the container's own
	made int    // of them
	fds  *descriptors
	root int             // the new root
	ours map[string]bool // mounts in which directories may be made, by id
}

// begin makes the root without volumes: a copy of the machine's, or an image's directory.
func (m *maker) begin(image string) error {
	at := cmp.Or(image, "/")
	from, err := m.fds.open(at, unix.O_DIRECTORY|unix.O_NOFOLLOW) // an image's link would lead anywhere
	if err != nil {
		return err
	}
	if image == "" {
		at, err = m.copied(from)
	} else {
		err = alone(image, image)
	}
	if err != nil {
		return err
	}
	if m.root, err = m.fds.open(at, unix.O_DIRECTORY|unix.O_NOFOLLOW); err != nil {
		return err
	}
	if err := m.mine(m.root); err != nil || image == "" {
		return err
	}
	for _, name := range []string{"/proc", "/sys", "/dev"} {
		if err := m.bind(name, name, unix.MS_REC); err != nil {
			return err
		}
	}
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		if err := m.file(name); err != nil {
			return err
		}
	}
	return nil
}

// alone mounts a directory, by itself and in no other's copy: or what is mounted in the machine's directories would have itself in it.
func alone(source, at string) error {
	if err := mount(source, at, unix.MS_BIND); err != nil {
		return refused(err)
	}
	return mount("", at, unix.MS_UNBINDABLE)
}

// mine notes that directories may be made in what a descriptor stands for.
func (m *maker) mine(fd int) error {
	id, err := mountID(fd)
	m.ours[id] = true
	return err
}

// add mounts a volume.
func (m *maker) add(v Mount) error {
	if err := m.bind(v.Source, v.Target, 0); err != nil {
		return err
	}
	fd, err := m.open(v.Target, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	if v.ReadOnly {
		if err := readOnly(fd); err != nil {
			return err
		}
	}
	return m.mine(fd) // one that is read-only refuses by itself
}

func (m *maker) bind(source, target string, flags uintptr) error {
	point, err := m.point(target)
	if err != nil {
		return err
	}
	from, err := m.fds.open(source, unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	return mount(magic(from), magic(point), unix.MS_BIND|flags)
}

// readOnly makes a mount so, and leaves its other restrictions.
func readOnly(fd int) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(fd, &s); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	const kept = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC // the numbers are those of statfs
	return mount("", magic(fd), unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|uintptr(s.Flags)&kept)
}

// point gives the directory of the root to mount something at, and makes it where it is missing.
func (m *maker) point(target string) (fd int, err error) {
	at := "."
	for part := range strings.SplitSeq(strings.Trim(target, "/"), "/") {
		next := path.Join(at, part)
		fd, err = m.open(next, unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) {
			if err = m.mkdir(at, part); err == nil {
				fd, err = m.open(next, unix.O_DIRECTORY)
			}
		}
		switch {
		case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOENT):
			return -1, sdk.NewInvalid(sdk.ReasonPath, "nothing can be mounted there: %q is no directory", "/"+next)
		case errors.Is(err, unix.EROFS):
			return -1, sdk.NewInvalid(sdk.ReasonPath, "nothing can be mounted there: there is no directory %q, and what it would be in is read-only: make it there before that is sealed", "/"+next)
		case err != nil:
			return -1, err
		}
		at = next
	}
	return fd, nil
}

// mostRaces is how often a name is resolved that somebody renames or mounts something meanwhile, anywhere on the machine: the kernel then asks to do it again.
const mostRaces = 1000

// open gives what a name of the root stands for. Links in it never lead out.
func (m *maker) open(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Flags, how.Mode = how.Flags&^unix.O_PATH, 0o644
	}
	var fd int
	var err error
	for range mostRaces {
		if fd, err = unix.Openat2(m.root, name, &how); err != unix.EAGAIN {
			break
		}
	}
	if err != nil {
		return -1, refused(&os.PathError{Op: "open", Path: name, Err: err})
	}
	return m.fds.keep(fd), nil
}

// mkdir makes a directory in one of the root.
func (m *maker) mkdir(parent, name string) error {
	fd, err := m.open(parent, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	id, err := mountID(fd)
	if err != nil {
		return err
	}
	if !m.ours[id] {
		if fd, err = m.cover(fd); err != nil {
			return fmt.Errorf("a copy of the machine's %q, which has no %q: %w", "/"+parent, name, err)
		}
	}
	return os.NewSyscallError("mkdir", unix.Mkdirat(fd, name, 0o755))
}

// cover puts a directory of the container's own over one of the machine's.
func (m *maker) cover(fd int) (int, error) {
	at, err := m.copied(fd)
	if err != nil {
		return -1, err
	}
	made, err := m.fds.open(at, unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	if err := m.mine(made); err != nil {
		return -1, err
	}
	return made, mount(at, magic(fd), unix.MS_MOVE)
}

// mostEntries is how many things a directory may have that a copy is made of: each is a mount, of which a machine has a hundred thousand.
const mostEntries = 4096

// copied makes a directory of the container's own in which all is mounted that is in one of the machine's. It is a mount, by itself.
func (m *maker) copied(from int) (string, error) {
	entries, err := os.ReadDir(magic(from))
	if err != nil {
		return "", err
	}
	if len(entries) > mostEntries {
		return "", sdk.NewInvalid(sdk.ReasonPath, "it has %d entries, more than %d: make the directory there on the machine, or mount elsewhere", len(entries), mostEntries)
	}
	at := path.Join(m.dir, strconv.Itoa(m.made))
	m.made++
	if err := os.Mkdir(at, 0o700); err != nil {
		return "", err
	}
	if err := likeness(at, from); err != nil {
		return "", err
	}
	if err := alone(at, at); err != nil {
		return "", err
	}
	for _, e := range entries {
		if err := show(from, e.Name(), path.Join(at, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			return "", err
		}
	}
	return at, nil
}

// likeness gives a directory another one's owner and mode.
func likeness(at string, of int) error {
	var s unix.Stat_t
	if err := unix.Fstat(of, &s); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if err := unix.Chown(at, int(s.Uid), int(s.Gid)); err != nil {
		return os.NewSyscallError("chown", err)
	}
	return os.NewSyscallError("chmod", unix.Chmod(at, s.Mode&0o7777))
}

// show has something of the machine at another place, too.
func show(dir int, name, at string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch s.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := os.Readlink(path.Join(magic(dir), name))
		if err != nil {
			return err
		}
		return os.Symlink(to, at)
	case unix.S_IFDIR:
		err = os.Mkdir(at, 0o755)
	default:
		err = os.WriteFile(at, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return refused(mount(magic(fd), at, unix.MS_BIND|unix.MS_REC))
}

// file has a file of the machine in an image's root, at the same place, where both have a directory for it.
func (m *maker) file(name string) error {
	from, err := m.fds.open(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	at, err := m.open(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		at, err = m.open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	}
	var to, of unix.Stat_t
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // as the image has it
	case err != nil:
		return err
	}
	if err := errors.Join(unix.Fstat(from, &of), unix.Fstat(at, &to)); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if of.Mode&unix.S_IFMT != unix.S_IFREG || to.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	if err := mount(magic(from), magic(at), unix.MS_BIND); err != nil {
		return err
	}
	if at, err = m.open(name, 0); err != nil {
		return err
	}
	return readOnly(at)
}

// mountID tells mounts apart.
func mountID(fd int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("the kernel does not say in which mount a file is")
}
