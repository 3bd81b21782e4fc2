package tree

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func linkError(op, old, new string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: old, New: new, Err: err}
}

// find resolves a path that must exist.
func (n *Namespace) find(cwd, name string, f follow) (*search, error) {
	s := newSearch(n, cwd, name)
	return s, s.run(f)
}

// Stat describes what a path leads to, through symlinks.
func (n *Namespace) Stat(cwd, name string) (fs.FileInfo, error) {
	return n.info("stat", cwd, name, followAll)
}

// Lstat is Stat, but describes a symlink at the path's end itself.
func (n *Namespace) Lstat(cwd, name string) (fs.FileInfo, error) {
	return n.info("lstat", cwd, name, followSlash)
}

func (n *Namespace) info(op, cwd, name string, f follow) (fs.FileInfo, error) {
	s, err := n.find(cwd, name, f)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	return info{base(name), s.node.attr}, nil
}

// base is the last name of a path, as fs.FileInfo wants it.
func base(name string) string {
	for len(name) > 1 && name[len(name)-1] == '/' {
		name = name[:len(name)-1]
	}
	for i := len(name) - 1; i >= 0 && len(name) > 1; i-- {
		if name[i] == '/' {
			return name[i+1:]
		}
	}
	return name
}

// ReadDir returns a directory's entries, sorted by name. Their Info is what
// was there at that time.
func (n *Namespace) ReadDir(cwd, name string) ([]fs.DirEntry, error) {
	s, err := n.find(cwd, name, followAll)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if !s.node.attr.mode.IsDir() {
		return nil, pathError("readdir", name, syscall.ENOTDIR)
	}
	all, err := n.list(&s.node)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return entries(all), nil
}

func entries(all []info) []fs.DirEntry {
	list := make([]fs.DirEntry, len(all))
	for i, in := range all {
		list[i] = entry{in}
	}
	return list
}

// Readlink returns the target of a symlink.
func (n *Namespace) Readlink(cwd, name string) (string, error) {
	s, err := n.find(cwd, name, followSlash)
	if err == nil && s.node.attr.target == "" {
		err = syscall.EINVAL
	}
	return s.node.attr.target, pathError("readlink", name, err)
}

// vacant resolves a path at which something is to be made. A slash may follow
// the name of a directory only.
func (n *Namespace) vacant(cwd, name string, dir bool) (*search, error) {
	s, err := n.find(cwd, name, followNever)
	switch {
	case err == nil:
		return s, syscall.EEXIST
	case !s.missing(err) || s.slash && !dir:
		return s, err
	}
	return s, nil
}

// Mkdir makes a directory.
func (n *Namespace) Mkdir(cwd, name string, perm fs.FileMode) error {
	return pathError("mkdir", name, n.mkdir(cwd, name, perm))
}

func (n *Namespace) mkdir(cwd, name string, perm fs.FileMode) error {
	s, err := n.vacant(cwd, name, true)
	if err != nil {
		return err
	}
	return s.dir().mkdir(s.name, perm)
}

// MkdirAll makes a directory and its missing parents; one that is there
// already is fine. The target of a dangling symlink is not made.
func (n *Namespace) MkdirAll(cwd, name string, perm fs.FileMode) error {
	for end := range len(name) + 1 {
		if end < len(name) && (name[end] != '/' || end == 0) {
			continue
		}
		err := n.mkdir(cwd, name[:end], perm)
		if err == syscall.EEXIST {
			s, missing := n.find(cwd, name[:end], followAll)
			switch {
			case missing == nil && s.node.attr.mode.IsDir():
				err = nil
			case missing == nil:
				err = syscall.ENOTDIR
			}
		}
		if err != nil {
			return pathError("mkdir", name, err)
		}
	}
	return nil
}

// Symlink makes a symlink called name to target, which may be anything.
func (n *Namespace) Symlink(cwd, target, name string) error {
	switch {
	case target == "":
		return linkError("symlink", target, name, syscall.ENOENT)
	case len(target) > maxPath:
		return linkError("symlink", target, name, syscall.ENAMETOOLONG)
	case strings.IndexByte(target, 0) >= 0:
		return linkError("symlink", target, name, syscall.EINVAL)
	}
	s, err := n.vacant(cwd, name, false)
	if err != nil {
		return linkError("symlink", target, name, err)
	}
	t, err := s.dir().tree()
	if err == nil {
		_, err = t.create(s.dir().ino(), s.name, attr{mode: fs.ModeSymlink | 0o777, target: target})
	}
	return linkError("symlink", target, name, err)
}

// Link makes name a second name of the file, or the symlink, old.
func (n *Namespace) Link(cwd, old, name string) error {
	return linkError("link", old, name, n.link(cwd, old, name))
}

func (n *Namespace) link(cwd, old, name string) error {
	from, err := n.find(cwd, old, followSlash)
	if err != nil {
		return err
	}
	to, err := n.vacant(cwd, name, false)
	if err != nil {
		return err
	}
	if from.node.mnt != to.dir().mnt {
		return syscall.EXDEV
	}
	if from.node.attr.mode.IsDir() {
		return syscall.EPERM
	}
	t, err := to.dir().tree()
	if err != nil {
		return err
	}
	return t.link(from.node.ino(), to.dir().ino(), to.name)
}

// Remove removes a file, a symlink or an empty directory.
func (n *Namespace) Remove(cwd, name string) error {
	s, err := n.find(cwd, name, followNever)
	if err == nil {
		err = s.removable()
	}
	if err == nil {
		err = remove(s.dir(), s.name)
	}
	return pathError("remove", name, err)
}

// removable says whether what was found may lose the name it was found by.
func (s *search) removable() error {
	switch {
	case s.dots == ".":
		return syscall.EINVAL
	case s.dots == "..":
		return syscall.ENOTEMPTY
	case s.name == "", s.node.pt != nil:
		return syscall.EBUSY
	case s.slash && !s.node.attr.mode.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

func remove(dir *place, name string) error {
	t, err := dir.tree()
	if err != nil {
		return err
	}
	return t.remove(dir.ino(), name)
}

// RemoveAll removes whatever a path names and all below it; nothing there is
// fine. It goes on after an error and returns the first. The content of a
// mount is removed too, then the mount point itself is EBUSY.
func (n *Namespace) RemoveAll(cwd, name string) error {
	s, err := n.find(cwd, name, followNever)
	if err == syscall.ENOENT && name != "" {
		return nil
	}
	if err == nil {
		if err = s.removable(); err == syscall.EBUSY && s.name != "" {
			err = nil // a mount point's content can be removed
		}
	}
	if err != nil {
		return pathError("unlinkat", name, err)
	}
	return pathError("unlinkat", name, n.removeAll(s.dir(), s.node))
}

// doomed is a directory whose content is being removed.
type doomed struct {
	parent, self place
	left         []info
}

func (n *Namespace) removeAll(parent *place, top place) error {
	var first error
	keep := func(err error) {
		if first == nil && err != nil && err != syscall.ENOENT {
			first = err
		}
	}
	take := func(dir *place, node place) {
		if node.pt != nil {
			keep(syscall.EBUSY)
			return
		}
		keep(remove(dir, node.name))
	}
	if !top.attr.mode.IsDir() {
		take(parent, top)
		return first
	}
	// A stack of its own: trees may be deeper than a goroutine's should be.
	stack := []*doomed{{parent: *parent, self: top}}
	stack[0].left, first = n.list(&top)
	for len(stack) > 0 {
		d := stack[len(stack)-1]
		if len(d.left) == 0 {
			take(&d.parent, d.self)
			stack = stack[:len(stack)-1]
			continue
		}
		name := d.left[0].name
		d.left = d.left[1:]
		node, err := n.step(&d.self, name)
		if err != nil {
			keep(err)
			continue
		}
		if !node.attr.mode.IsDir() {
			take(&d.self, node)
			continue
		}
		left, err := n.list(&node)
		keep(err)
		stack = append(stack, &doomed{parent: d.self, self: node, left: left})
	}
	return first
}

// Rename moves a file or directory, replacing a file by a file or an empty
// directory by a directory, atomically. Between mounts it is EXDEV.
func (n *Namespace) Rename(cwd, old, new string) error {
	return linkError("rename", old, new, n.rename(cwd, old, new))
}

func (n *Namespace) rename(cwd, old, new string) error {
	from, missing := n.find(cwd, old, followNever)
	if missing != nil && !from.missing(missing) {
		return missing
	}
	to, err := n.find(cwd, new, followNever)
	switch {
	case err != nil && !to.missing(err):
		return err
	case from.name == "" || to.name == "":
		return syscall.EBUSY
	case from.dir().mnt != to.dir().mnt:
		return syscall.EXDEV
	case missing != nil:
		return missing
	case from.node.pt != nil || to.node.pt != nil:
		return syscall.EBUSY
	case (from.slash || to.slash) && !from.node.attr.mode.IsDir():
		return syscall.ENOTDIR
	}
	t, err := to.dir().tree()
	if err != nil {
		return err
	}
	return t.rename(from.dir().ino(), from.name, to.dir().ino(), to.name)
}

// change sets metadata. What exists in no tree cannot be changed.
func (n *Namespace) change(op, cwd, name string, how follow, f func(*inode)) error {
	s, err := n.find(cwd, name, how)
	if err == nil {
		err = s.node.change(f)
	}
	return pathError(op, name, err)
}

func (p *place) change(f func(*inode)) error {
	t, err := p.tree()
	if err != nil {
		return err
	}
	return t.change(p.ino(), f)
}

// Chmod sets permissions, setuid, setgid and sticky, through symlinks.
func (n *Namespace) Chmod(cwd, name string, mode fs.FileMode) error {
	return n.change("chmod", cwd, name, followAll, func(in *inode) { in.mode = in.mode.Type() | mode&kept })
}

// Chown sets the owner, through symlinks; -1 leaves an id as it is. As on
// Linux, a file loses its setuid bit, and its setgid bit if it is executable.
func (n *Namespace) Chown(cwd, name string, uid, gid int) error {
	return n.change("chown", cwd, name, followAll, chown(uid, gid))
}

// Lchown is Chown, but changes a symlink itself.
func (n *Namespace) Lchown(cwd, name string, uid, gid int) error {
	return n.change("lchown", cwd, name, followSlash, chown(uid, gid))
}

func chown(uid, gid int) func(*inode) {
	return func(in *inode) {
		if uid != -1 {
			in.uid = uint32(uid)
		}
		if gid != -1 {
			in.gid = uint32(gid)
		}
		if !in.mode.IsRegular() {
			return
		}
		in.mode &^= fs.ModeSetuid
		if in.mode&0o010 != 0 {
			in.mode &^= fs.ModeSetgid
		}
	}
}

// Chtimes sets the time of the last change, through symlinks. The time of the
// last access is not kept.
func (n *Namespace) Chtimes(cwd, name string, mtime time.Time) error {
	return n.change("chtimes", cwd, name, followAll, func(in *inode) { in.mtime = mtime.Round(0) })
}
