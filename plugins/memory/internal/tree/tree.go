package tree

import (
	"hash/maphash"
	"io/fs"
	"sync"
	"syscall"
	"time"
)

const rootIno = 1

// Options are what a new tree's root directory is like.
type Options struct {
	Mode     fs.FileMode // permission bits; zero means 0755
	UID, GID uint32
}

// Tree is a volume: a tree of files that is written until it is sealed. It is
// safe for concurrent use, and its open files are too. A tree must be released
// once nobody needs it; then and only then its share of the budget comes back.
type Tree struct {
	budget *Budget
	seed   maphash.Seed // ranks the names

	mu       sync.RWMutex
	inodes   radix[*inode] // by inode number; what it holds has a name, or is the root
	orphans  map[uint64]*inode
	opened   map[uint64]int // open files by inode number
	next     uint64
	bytes    int64
	nodes    int64
	sealed   bool
	released bool
}

// Usage is how much is in a tree, whether or not it shares it with clones.
type Usage struct {
	Bytes int64 // sum of the sizes of its regular files, holes included
	Nodes int64 // files, directories and symlinks, the root included
}

// New returns a tree that holds an empty root directory and charges b. It
// fails with ENOSPC only.
func New(b *Budget, opts Options) (*Tree, error) {
	if opts.Mode == 0 {
		opts.Mode = 0o755
	}
	root, err := newInode(b, attr{mode: fs.ModeDir | opts.Mode&kept, uid: opts.UID, gid: opts.GID, mtime: now()})
	if err != nil {
		return nil, err
	}
	root.parent = rootIno
	t := &Tree{budget: b, seed: maphash.MakeSeed(), next: rootIno + 1, nodes: 1}
	*t.inodes.slot(b, rootIno) = root
	return t, nil
}

// Clone returns a new open tree with the same content, in constant time. Hard
// links and inode numbers stay as they are; files that are open but have no
// name are left out. The clone of a released tree is released.
func (t *Tree) Clone() *Tree {
	t.mu.RLock()
	defer t.mu.RUnlock()
	t.inodes.retain()
	return &Tree{
		budget: t.budget, seed: t.seed, inodes: t.inodes, next: t.next,
		bytes: t.bytes, nodes: t.nodes, released: t.released,
	}
}

// Seal makes the tree read-only for ever: writes fail with EROFS, those
// through files that are already open too. It is idempotent.
func (t *Tree) Seal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = true
}

// Sealed says whether Seal was called.
func (t *Tree) Sealed() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sealed
}

// Usage returns how much is in the tree, in constant time.
func (t *Tree) Usage() Usage {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return Usage{Bytes: t.bytes, Nodes: t.nodes}
}

// Release gives up the tree's content and returns to the budget what no clone
// shares. Every later operation on the tree or its open files fails with
// fs.ErrClosed. It is idempotent.
func (t *Tree) Release() {
	t.mu.Lock()
	inodes, orphans := t.inodes, t.orphans
	t.inodes, t.orphans, t.opened = radix[*inode]{}, nil, nil
	t.released = true
	t.bytes, t.nodes = 0, 0
	t.mu.Unlock()

	inodes.drop(t.budget)
	for _, in := range orphans {
		in.release(t.budget)
	}
}

func now() time.Time { return time.Now().Round(0) }

// The functions below need the lock; those that return something to write in,
// and all of ops.go, the exclusive one.

// find returns the inode to read from, also of an open file without a name,
// or nil.
func (t *Tree) find(ino uint64) *inode {
	if in := t.inodes.get(ino); in != nil {
		return in
	}
	return t.orphans[ino]
}

// edit returns the inode to write in, or nil.
func (t *Tree) edit(ino uint64) *inode {
	if in, ok := t.orphans[ino]; ok {
		in = in.own(t.budget)
		t.orphans[ino] = in
		return in
	}
	if t.inodes.get(ino) == nil {
		return nil
	}
	slot := t.inodes.slot(t.budget, ino)
	*slot = (*slot).own(t.budget)
	return *slot
}

// dir returns the directory to read from; a removed one is gone.
func (t *Tree) dir(ino uint64) (*inode, error) {
	in := t.inodes.get(ino)
	if in == nil {
		return nil, t.gone()
	}
	if !in.mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	return in, nil
}

func (t *Tree) gone() error {
	if t.released {
		return fs.ErrClosed
	}
	return syscall.ENOENT
}

func (t *Tree) writable() error {
	if t.released {
		return fs.ErrClosed
	}
	if t.sealed {
		return syscall.EROFS
	}
	return nil
}

// pin keeps the node of an opened file until unpin.
func (t *Tree) pin(ino uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(ino) == nil {
		return t.gone()
	}
	if t.opened == nil {
		t.opened = make(map[uint64]int)
	}
	t.opened[ino]++
	return nil
}

func (t *Tree) unpin(ino uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return
	}
	if t.opened[ino]--; t.opened[ino] > 0 {
		return
	}
	delete(t.opened, ino)
	if in, ok := t.orphans[ino]; ok {
		delete(t.orphans, ino)
		in.release(t.budget)
	}
}
