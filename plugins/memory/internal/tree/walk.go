package tree

import (
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

const (
	maxHops = 40
	maxPath = 4095
	maxName = 255
)

// place is a node in a namespace: a node of a mounted tree, of which pt is set
// if it is a mount point or leads to one; or with mnt nil one that exists in no
// tree.
type place struct {
	pt   *point
	mnt  *mount
	name string // in the directory it was found in
	attr attr
}

func (p *place) ino() uint64 { return p.attr.ino }

// follow says what becomes of a symlink at the end of a path.
type follow int

const (
	followNever follow = iota // the path's last name is what is meant, even before a slash
	followSlash               // it is followed if a slash comes behind it
	followAll
)

// search resolves one path. After run, node is what was found; stack holds the
// directories from the root to the one that has it, and name the last name,
// empty if the path ended in "." or ".." or was the root: then the last of
// stack is node itself, and dots says which.
type search struct {
	ns    *Namespace
	stack []place
	rest  string // what is still to be resolved
	name  string
	dots  string
	slash bool // a slash followed the last name
	hops  int  // symlinks followed
	file  bool // a file is to be made: a slash behind the last name is EISDIR
	node  place
}

func newSearch(ns *Namespace, cwd, name string) *search {
	if !strings.HasPrefix(name, "/") && name != "" {
		name = cwd + "/" + name
	}
	return &search{ns: ns, rest: name}
}

// dir is the directory that has, or would have, the last name.
func (s *search) dir() *place { return &s.stack[len(s.stack)-1] }

// names is the canonical path of the last directory of stack, and of node
// if it was found in it.
func (s *search) names() []string {
	var names []string
	for _, p := range s.stack[1:] {
		names = append(names, p.name)
	}
	if s.name != "" && s.node.name != "" {
		names = append(names, s.node.name)
	}
	return names
}

// run resolves the path. If ENOENT comes back, s.missing tells whether only the
// last name is missing; if not, rest is what would have come behind name. With
// followNever the caller looks at slash.
func (s *search) run(f follow) error {
	switch {
	case s.rest == "":
		return syscall.ENOENT
	case len(s.rest) > maxPath:
		return syscall.ENAMETOOLONG
	case strings.IndexByte(s.rest, 0) >= 0:
		return syscall.EINVAL
	}
	top, err := s.ns.top()
	if err != nil {
		return err
	}
	s.stack = append(make([]place, 0, 16), top)
	for {
		link, err := s.next(f)
		if err != nil || link == "" {
			return err
		}
		if s.hops++; s.hops > maxHops {
			return syscall.ELOOP
		}
		if s.rest != "" || s.slash {
			link += "/" + s.rest
		}
		s.rest = link
		if link[0] == '/' {
			s.stack = s.stack[:1]
		}
	}
}

// next goes on until the end or the next symlink, whose target it returns.
func (s *search) next(f follow) (link string, err error) {
	for {
		name, rest, found := strings.Cut(strings.TrimLeft(s.rest, "/"), "/")
		s.rest = strings.TrimLeft(rest, "/")
		s.name, s.slash, s.node = "", found, place{}
		last := s.rest == ""
		switch name {
		case "", ".", "..":
			if name == ".." && len(s.stack) > 1 {
				s.stack = s.stack[:len(s.stack)-1]
			}
			if last {
				s.node, s.dots = *s.dir(), name
				return "", nil
			}
			continue
		}
		s.name = name
		if len(name) > maxName {
			return "", syscall.ENAMETOOLONG
		}
		if last && s.slash && s.file {
			return "", syscall.EISDIR
		}
		node, err := s.ns.step(s.dir(), name)
		if err != nil {
			return "", err
		}
		through := !last || f == followAll || f == followSlash && s.slash
		if node.attr.target != "" && through {
			return node.attr.target, nil
		}
		if !node.attr.mode.IsDir() && (!last || s.slash && f != followNever) {
			return "", syscall.ENOTDIR
		}
		if last {
			s.node = node
			return "", nil
		}
		s.stack = append(s.stack, node)
	}
}

// missing says whether err, which run returned, means that nothing but the
// last name is missing.
func (s *search) missing(err error) bool {
	return err == syscall.ENOENT && s.rest == "" && s.name != ""
}

// top is the namespace's root.
func (n *Namespace) top() (place, error) {
	m := n.root.mnt
	a, err := m.tree.stat(rootIno)
	a.dev = m.dev
	return place{pt: n.root, mnt: m, attr: a}, err
}

// step finds name in a directory.
func (n *Namespace) step(dir *place, name string) (place, error) {
	kid := dir.kid(name)
	switch {
	case kid == nil && dir.mnt == nil:
		return place{}, syscall.ENOENT
	case kid == nil:
		a, err := dir.mnt.tree.lookup(dir.ino(), name)
		a.dev = dir.mnt.dev
		return place{mnt: dir.mnt, name: name, attr: a}, err
	case kid.mnt != nil:
		a, err := kid.mnt.tree.stat(rootIno)
		a.dev = kid.mnt.dev
		return place{pt: kid, mnt: kid.mnt, name: name, attr: a}, err
	case dir.mnt != nil && !kid.null:
		// On the way to a mount point anything but a directory is hidden.
		if a, err := dir.mnt.tree.lookup(dir.ino(), name); err == nil && a.mode.IsDir() {
			a.dev = dir.mnt.dev
			return place{pt: kid, mnt: dir.mnt, name: name, attr: a}, nil
		}
	}
	return place{pt: kid, name: name, attr: n.virtual(kid)}, nil
}

func (n *Namespace) virtual(p *point) attr {
	mode := fs.ModeDir | 0o755
	if p.null {
		mode = fs.ModeDevice | fs.ModeCharDevice | 0o666
	}
	return attr{ino: p.ino, dev: virtualDev, mode: mode, nlink: 1, mtime: n.made}
}

// kid is the point called name in a directory, if there is one.
func (p *place) kid(name string) *point {
	if p.pt == nil {
		return nil
	}
	return p.pt.kids[name]
}

// tree is the tree to write in.
func (p *place) tree() (*Tree, error) {
	if p.mnt == nil || p.mnt.readOnly {
		return nil, syscall.EROFS
	}
	return p.mnt.tree, nil
}

func (p *place) mkdir(name string, perm fs.FileMode) error {
	t, err := p.tree()
	if err != nil {
		return err
	}
	_, err = t.create(p.ino(), name, attr{mode: fs.ModeDir | perm&kept})
	return err
}

// list returns a directory's entries, sorted, with the mount points in it.
func (n *Namespace) list(dir *place) ([]info, error) {
	var all []info
	if dir.mnt != nil {
		var err error
		if all, err = dir.mnt.tree.list(dir.ino()); err != nil {
			return nil, err
		}
		for i := range all {
			all[i].dev = dir.mnt.dev
		}
	}
	if dir.pt == nil || len(dir.pt.kids) == 0 {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(i info) bool { return dir.pt.kids[i.name] != nil })
	for name := range dir.pt.kids {
		kid, err := n.step(dir, name)
		if err != nil {
			return nil, err
		}
		all = append(all, info{name, kid.attr})
	}
	slices.SortFunc(all, func(a, b info) int { return strings.Compare(a.name, b.name) })
	return all, nil
}
