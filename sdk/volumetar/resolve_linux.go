package volumetar

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is one call's hold on a directory that it must not leave.
type tree struct {
	fd     int
	byHand bool
	proc   bool
}

func (t *tree) close() { unix.Close(t.fd) }

const (
	// strictly follows no symbolic link, confined follows those that stay inside.
	strictly = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	confined = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS

	openDir  = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	readDir  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	openPath = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC

	maxPath  = 4000 // what a kernel takes at once, with room to spare
	maxLinks = 40   // as kernels have it
)

// dir opens the directory at names, none of which may be a symbolic link (ELOOP). The descriptor is good for resolving only.
func (t *tree) dir(names []string) (int, error) {
	fd, err := dup(t.fd)
	for len(names) > 0 && err == nil {
		n, next := 1, -1
		if !t.byHand {
			n = atOnce(names)
			next, err = openat2(fd, strings.Join(names[:n], "/"), openDir, strictly)
		} else {
			next, err = child(fd, names[0])
		}
		unix.Close(fd)
		fd, names = next, names[n:]
	}
	return fd, err
}

// atOnce is how many names fit into one path.
func atOnce(names []string) int {
	n, size := 1, len(names[0])
	for n < len(names) && size+1+len(names[n]) <= maxPath {
		size += 1 + len(names[n])
		n++
	}
	return n
}

// child opens one directory, which may not be a symbolic link (ELOOP).
func child(dir int, name string) (int, error) {
	fd, err := openat(dir, name, openDir)
	if err == unix.ENOTDIR && isLink(dir, name) {
		err = unix.ELOOP
	}
	return fd, err
}

func isLink(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// locate opens the directory that holds the last of names, passing symbolic links as if the tree were all there is. The root is "." in itself.
func (t *tree) locate(names []string) (parent int, last string, err error) {
	if len(names) == 0 {
		parent, err = dup(t.fd)
		return parent, ".", err
	}
	names, last = names[:len(names)-1], names[len(names)-1]
	if len(names) == 0 {
		parent, err = dup(t.fd)
		return parent, last, err
	}
	if path := strings.Join(names, "/"); !t.byHand && len(path) <= maxPath {
		parent, err = openat2(t.fd, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, confined)
		if err != unix.EAGAIN { // which says that something was renamed meanwhile
			return parent, last, err
		}
	}
	parent, err = t.walk(names)
	return parent, last, err
}

// walk is locate by hand. It knows where it is by name, so that ".." of a link needs no "..", which may lead anywhere once something is moved.
func (t *tree) walk(todo []string) (int, error) {
	var at []string // passed, free of links
	fd, err := dup(t.fd)
	links := 0
	restart := func() {
		unix.Close(fd)
		fd, err = (&tree{fd: t.fd, byHand: true}).dir(at)
	}
	for len(todo) > 0 && err == nil {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = at[:max(len(at)-1, 0)]
			restart()
			continue
		}
		next, nextErr := child(fd, name)
		if nextErr == nil {
			unix.Close(fd)
			fd, at = next, append(at[:len(at):len(at)], name)
			continue
		}
		if nextErr != unix.ELOOP {
			unix.Close(fd)
			return -1, nextErr
		}
		if links++; links > maxLinks {
			unix.Close(fd)
			return -1, unix.ELOOP
		}
		target, linkErr := readlink(fd, name)
		if linkErr != nil {
			unix.Close(fd)
			return -1, linkErr
		}
		if strings.HasPrefix(target, "/") {
			at = nil
			restart()
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return fd, err
}

func readlink(dir int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

func openat(dir int, name string, flags int) (int, error) {
	return again(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

func openat2(dir int, path string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve}
	return again(func() (int, error) { return unix.Openat2(dir, path, &how) })
}

// reopen opens what an O_PATH descriptor stands for, and nothing else; parent and name are where it was found.
func (t *tree) reopen(fd, parent int, name string, flags int) (int, error) {
	if t.proc {
		return again(func() (int, error) { return unix.Open(procPath(fd), flags|unix.O_CLOEXEC, 0) })
	}
	opened, err := openat(parent, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC)
	if err != nil {
		return -1, err
	}
	var want, got unix.Stat_t
	if err = unix.Fstat(fd, &want); err == nil {
		err = unix.Fstat(opened, &got)
	}
	if err == nil && !same(&want, &got) {
		err = errChanged
	}
	if err != nil {
		unix.Close(opened)
		return -1, err
	}
	return opened, nil
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func same(a, b *unix.Stat_t) bool { return a.Dev == b.Dev && a.Ino == b.Ino }
