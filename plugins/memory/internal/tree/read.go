package tree

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Paths of a tree start at its root: "", "." and "/" are the root, a leading
// slash changes nothing, and one that leads out by ".." is EINVAL. Symlinks
// are followed as in a namespace that has this tree only.

// OpenFile opens a file or directory for reading, through symlinks.
func (t *Tree) OpenFile(name string) (*File, error) {
	n, p, err := t.alone("open", name)
	if err != nil {
		return nil, err
	}
	return n.Open("/", p, os.O_RDONLY, 0)
}

// Stat describes what a path leads to, through symlinks.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	n, p, err := t.alone("stat", name)
	if err != nil {
		return nil, err
	}
	return n.Stat("/", p)
}

// Lstat is Stat, but describes a symlink at the path's end itself.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) {
	n, p, err := t.alone("lstat", name)
	if err != nil {
		return nil, err
	}
	return n.Lstat("/", p)
}

// List returns a directory's entries, sorted by name.
func (t *Tree) List(name string) ([]fs.DirEntry, error) {
	n, p, err := t.alone("readdir", name)
	if err != nil {
		return nil, err
	}
	return n.ReadDir("/", p)
}

// Readlink returns the target of a symlink.
func (t *Tree) Readlink(name string) (string, error) {
	n, p, err := t.alone("readlink", name)
	if err != nil {
		return "", err
	}
	return n.Readlink("/", p)
}

// alone is a namespace with nothing but this tree in it, and the path there.
func (t *Tree) alone(op, name string) (*Namespace, string, error) {
	if _, ok := inside(name); !ok {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.EINVAL}
	}
	if name == "" {
		name = "."
	}
	m := &mount{tree: t, readOnly: true, dev: virtualDev + 1}
	return &Namespace{root: &point{ino: 1, mnt: m}}, name, nil
}

// inside returns the names in a path, and whether it stays below its start
// with ".." taken by the letter.
func inside(p string) ([]string, bool) {
	p = path.Clean(strings.TrimLeft(p, "/"))
	switch {
	case p == ".":
		return nil, true
	case p == "..", strings.HasPrefix(p, "../"):
		return nil, false
	}
	return strings.Split(p, "/"), true
}
