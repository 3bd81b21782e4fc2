//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// root is a tree whose files are looked for as one sees them who has it as its root: links and ".." never lead out of it.
type root struct {
	dir *os.File
}

// openRoot takes a directory, or the /proc/PID/root of a process, whose mounts then count.
func openRoot(dir string) (root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return root{}, fmt.Errorf("open %s: %w", dir, err)
	}
	return root{os.NewFile(uintptr(fd), dir)}, nil
}

func (r root) close() { r.dir.Close() }

func (r root) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat2(int(r.dir.Fd()), name, &unix.OpenHow{
		Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (r root) stat(name string) error {
	f, err := r.open(name, unix.O_PATH)
	if err != nil {
		return err
	}
	return f.Close()
}

// executable tells whether there is a file of that name that somebody may execute.
func (r root) executable(name string) bool {
	f, err := r.open(name, unix.O_PATH)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// textMax bounds what is read of a container's own files.
const textMax = 1 << 20

// text reads a regular file. A pipe or a device in its place is neither waited for nor read.
func (r root) text(name string) (string, error) {
	f, err := r.open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	var text strings.Builder
	if _, err := io.Copy(&text, io.LimitReader(f, textMax+1)); err != nil {
		return "", err
	}
	if text.Len() > textMax {
		return "", fmt.Errorf("%s is longer than %d bytes", name, textMax)
	}
	return text.String(), nil
}
