package tree

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Mount is a tree at an absolute path of a namespace.
type Mount struct {
	Path     string
	Tree     *Tree
	ReadOnly bool
}

// NamespaceOptions are what else a namespace may be told.
type NamespaceOptions struct {
	ReadOnlyRoot bool // the root tree is mounted read-only
}

// Namespace is the file system of one container: a root tree, trees mounted in
// it, and /dev/null. It is safe for concurrent use. It owns none of its trees:
// they must outlive it, and their owner releases them.
//
// Paths may be relative: every operation takes the current directory, an
// absolute path, where empty means "/". Symlinks are followed inside the
// namespace only: absolute ones start at its root, ".." at the root stays
// there, and the 41st hop is ELOOP. A path takes 4,095 bytes and a name 255.
//
// Errors are *fs.PathError or *os.LinkError with the path as it was given, and
// wrap a syscall.Errno, or fs.ErrClosed once the tree was released.
//
// Mount points stay where they are: renaming or removing one, or a directory
// above one, is EBUSY. A mount point that is missing in a tree that cannot be
// written is shown all the same; nothing can be made in a directory that only
// exists that way (EROFS). /dev/null is there without a trace in the root tree.
type Namespace struct {
	root *point
	made time.Time
}

// point is a directory that is a mount point or leads to one, or a device. The
// points of a namespace never change once it is made.
type point struct {
	name string
	ino  uint64 // shown where no tree has a node there
	mnt  *mount // nil if nothing is mounted here
	null bool
	kids map[string]*point
}

type mount struct {
	tree     *Tree
	readOnly bool
	dev      uint64 // equal for mounts of one tree
}

// virtualDev is the device of what exists in no tree.
const virtualDev = 1

// NewNamespace composes a namespace. Mounts may be given in any order and
// nested. Mount points are resolved through symlinks, and those that are
// missing are made (0755, root's) where the tree beneath can be written. After
// an error such directories may stay behind.
//
// It fails with EINVAL for a relative path, "/", or a path that is given
// twice, ENOTDIR where a file is in the way, ENOSPC, or what resolving
// the path yields.
func NewNamespace(root *Tree, mounts []Mount, opts NamespaceOptions) (*Namespace, error) {
	n := &Namespace{
		root: &point{ino: 1, mnt: &mount{tree: root, readOnly: opts.ReadOnlyRoot, dev: virtualDev + 1}},
		made: now(),
	}
	devs := map[*Tree]uint64{root: virtualDev + 1}
	mounts = slices.Clone(mounts)
	slices.SortStableFunc(mounts, func(a, b Mount) int {
		return cmp.Or(cmp.Compare(depth(a.Path), depth(b.Path)), cmp.Compare(a.Path, b.Path))
	})
	points := uint64(1)
	for _, m := range mounts {
		dev, ok := devs[m.Tree]
		if !ok {
			dev = uint64(len(devs)) + virtualDev + 1
			devs[m.Tree] = dev
		}
		if err := n.mount(m, dev, &points); err != nil {
			return nil, &fs.PathError{Op: "mount", Path: m.Path, Err: err}
		}
	}
	n.addNull(&points)
	return n, nil
}

func depth(p string) int { return strings.Count(path.Clean(p), "/") }

func (n *Namespace) mount(m Mount, dev uint64, points *uint64) error {
	if !path.IsAbs(m.Path) {
		return fmt.Errorf("a mount point must be an absolute path: %w", syscall.EINVAL)
	}
	at, err := n.mountPoint(m.Path)
	if err != nil {
		return err
	}
	if len(at) == 0 {
		return fmt.Errorf("the root tree is mounted there: %w", syscall.EINVAL)
	}
	p := n.root.reach(at, points)
	if p.mnt != nil {
		return fmt.Errorf("two mounts have this path: %w", syscall.EINVAL)
	}
	p.mnt = &mount{tree: m.Tree, readOnly: m.ReadOnly, dev: dev}
	return nil
}

// mountPoint resolves p, makes what is missing, and returns its canonical
// names from the root on.
func (n *Namespace) mountPoint(p string) ([]string, error) {
	for range maxPath {
		s := newSearch(n, "/", p)
		err := s.run(followAll)
		if err == nil && !s.node.attr.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if err == nil {
			return s.names(), nil
		}
		if err != syscall.ENOENT {
			return nil, err
		}
		names := append(s.names(), s.name)
		err = s.dir().mkdir(s.name, 0o755)
		if err == syscall.EROFS {
			return append(names, split(s.rest)...), nil
		}
		if err != nil && err != syscall.EEXIST {
			return nil, err
		}
	}
	return nil, syscall.EBUSY // someone else keeps removing it
}

func split(p string) []string {
	return strings.FieldsFunc(path.Clean("/"+p), func(r rune) bool { return r == '/' })
}

// reach returns the point at the names below p, made if missing.
func (p *point) reach(names []string, points *uint64) *point {
	for _, name := range names {
		kid := p.kids[name]
		if kid == nil {
			*points++
			kid = &point{name: name, ino: *points}
			if p.kids == nil {
				p.kids = make(map[string]*point)
			}
			p.kids[name] = kid
		}
		p = kid
	}
	return p
}

func (n *Namespace) addNull(points *uint64) {
	s := newSearch(n, "/", "/dev")
	at := []string{"dev"}
	if err := s.run(followAll); err == nil && s.node.attr.mode.IsDir() {
		at = s.names()
	}
	p := n.root.reach(append(at, "null"), points)
	p.null = p.mnt == nil
}
