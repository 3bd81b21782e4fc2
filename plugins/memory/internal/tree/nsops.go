package tree

import (
	"io/fs"
	"os"
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
func (n *Namespace) find(cwd, name string, follow bool) (*search, error) {
	s := newSearch(n, cwd, name)
	return s, s.run(follow)
}

// Stat describes what a path leads to, through symlinks.
func (n *Namespace) Stat(cwd, name string) (fs.FileInfo, error) {
	return n.info("stat", cwd, name, true)
}

// Lstat is Stat, but describes a symlink at the path's end itself.
func (n *Namespace) Lstat(cwd, name string) (fs.FileInfo, error) {
	return n.info("lstat", cwd, name, false)
}

func (n *Namespace) info(op, cwd, name string, follow bool) (fs.FileInfo, error) {
	s, err := n.find(cwd, name, follow)
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
	s, err := n.find(cwd, name, true)
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
	s, err := n.find(cwd, name, false)
	if err == nil && s.node.attr.target == "" {
		err = syscall.EINVAL
	}
	return s.node.attr.target, pathError("readlink", name, err)
}

// vacant resolves a path at which something is to be made, and returns the
// directory to make it in.
func (n *Namespace) vacant(cwd, name string, dir bool) (*search, error) {
	s := newSearch(n, cwd, name)
	// A slash may follow the name of a directory to be made, but never makes
	// its symlink be followed.
	for dir && len(s.rest) > 1 && s.rest[len(s.rest)-1] == '/' {
		s.rest = s.rest[:len(s.rest)-1]
	}
	err := s.run(false)
	switch {
	case err == nil:
		return s, syscall.EEXIST
	case err != syscall.ENOENT || s.rest != "" || s.slash:
		return s, err
	}
	return s, nil
}

// Mkdir makes a directory.
func (n *Namespace) Mkdir(cwd, name string, perm fs.FileMode) error {
	s, err := n.vacant(cwd, name, true)
	if err == nil {
		err = s.dir().mkdir(s.name, perm)
	}
	return pathError("mkdir", name, err)
}

// MkdirAll makes a directory and its missing parents; one that is there
// already is fine.
func (n *Namespace) MkdirAll(cwd, name string, perm fs.FileMode) error {
	for range maxPath {
		s, err := n.find(cwd, name, true)
		if err == nil && !s.node.attr.mode.IsDir() {
			err = syscall.ENOTDIR
		}
		if err != syscall.ENOENT || name == "" {
			return pathError("mkdir", name, err)
		}
		// s stands where the first name is missing. Like mkdir -p, one does not
		// make the target of a dangling symlink.
		if s.hops > 0 {
			if l, err := n.find(cwd, name, false); err == nil && l.node.attr.target != "" {
				return pathError("mkdir", name, syscall.EEXIST)
			}
		}
		if err := s.dir().mkdir(s.name, perm); err != nil && err != syscall.EEXIST {
			return pathError("mkdir", name, err)
		}
	}
	return pathError("mkdir", name, syscall.EBUSY) // someone keeps removing it
}

// Symlink makes a symlink called name to target, which may be anything.
func (n *Namespace) Symlink(cwd, target, name string) error {
	switch {
	case target == "":
		return linkError("symlink", target, name, syscall.ENOENT)
	case len(target) > maxPath:
		return linkError("symlink", target, name, syscall.ENAMETOOLONG)
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
	from, err := n.find(cwd, old, false)
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

// named resolves a path whose last name is to be taken away.
func (n *Namespace) named(cwd, name string) (*search, error) {
	s, err := n.find(cwd, name, false)
	if err != nil {
		return s, err
	}
	if s.name == "" || s.node.pt != nil {
		return s, syscall.EBUSY // the root, ".", "..", a mount point
	}
	return s, nil
}

// Remove removes a file, a symlink or an empty directory.
func (n *Namespace) Remove(cwd, name string) error {
	s, err := n.named(cwd, name)
	if err == nil {
		err = remove(s.dir(), s.name)
	}
	return pathError("remove", name, err)
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
	s, err := n.find(cwd, name, false)
	if err == syscall.ENOENT && name != "" {
		return nil
	}
	if err == nil && s.name == "" {
		err = syscall.EINVAL
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
	from, err := n.named(cwd, old)
	if err != nil {
		return err
	}
	to := newSearch(n, cwd, new)
	err = to.run(false)
	switch {
	case err == syscall.ENOENT && to.rest == "":
		if to.slash && !from.node.attr.mode.IsDir() {
			return syscall.ENOTDIR
		}
	case err != nil:
		return err
	case to.name == "" || to.node.pt != nil:
		return syscall.EBUSY
	}
	if from.node.mnt != to.dir().mnt {
		return syscall.EXDEV
	}
	t, err := to.dir().tree()
	if err != nil {
		return err
	}
	return t.rename(from.dir().ino(), from.name, to.dir().ino(), to.name)
}

// change sets metadata. What exists in no tree cannot be changed.
func (n *Namespace) change(op, cwd, name string, follow bool, f func(*inode)) error {
	s, err := n.find(cwd, name, follow)
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
	return n.change("chmod", cwd, name, true, func(in *inode) { in.mode = in.mode.Type() | mode&kept })
}

// Chown sets the owner, through symlinks; -1 leaves an id as it is. As on
// Linux, a file loses its setuid bit, and its setgid bit if it is executable.
func (n *Namespace) Chown(cwd, name string, uid, gid int) error {
	return n.change("chown", cwd, name, true, chown(uid, gid))
}

// Lchown is Chown, but changes a symlink itself.
func (n *Namespace) Lchown(cwd, name string, uid, gid int) error {
	return n.change("lchown", cwd, name, false, chown(uid, gid))
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
	return n.change("chtimes", cwd, name, true, func(in *inode) { in.mtime = mtime.Round(0) })
}
