package tree

import (
	"io/fs"
	"sync/atomic"
	"time"
)

// kept are the bits of a mode that can be set; the others are the type.
const kept = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// inode is a regular file, a directory or a symlink.
type inode struct {
	refs     atomic.Int32
	mode     fs.FileMode
	uid, gid uint32
	nlink    uint32
	mtime    time.Time
	size     int64  // regular files
	data     data   // regular files
	target   string // symlinks
	xattrs   xattrs
	names    *name  // directories
	parent   uint64 // directories; the root is its own
}

func newInode(b *Budget, a attr) (*inode, error) {
	in := &inode{mode: a.mode, uid: a.uid, gid: a.gid, mtime: a.mtime, target: a.target, xattrs: a.xattrs, nlink: 1}
	if in.mode.IsDir() {
		in.nlink = 2
	}
	if err := b.take(in.cost()); err != nil {
		return nil, err
	}
	in.refs.Store(1)
	return in, nil
}

func (in *inode) cost() int64 { return nodeCost + int64(len(in.target)) + in.xattrs.cost() }
func (in *inode) retain()     { in.refs.Add(1) }

func (in *inode) release(b *Budget) {
	if in.refs.Add(-1) > 0 {
		return
	}
	b.give(in.cost())
	in.data.drop(b)
	in.names.release(b)
}

// own exchanges the caller's hold on in for a copy that nobody else holds.
func (in *inode) own(b *Budget) *inode {
	if in.refs.Load() == 1 {
		return in
	}
	c := &inode{
		mode: in.mode, uid: in.uid, gid: in.gid, nlink: in.nlink, mtime: in.mtime,
		size: in.size, data: in.data, target: in.target, xattrs: in.xattrs, names: in.names, parent: in.parent,
	}
	c.refs.Store(1)
	c.data.retain()
	c.names.retain()
	b.force(c.cost())
	in.release(b)
	return c
}

func (in *inode) attr(ino uint64) attr {
	a := attr{
		ino: ino, mode: in.mode, uid: in.uid, gid: in.gid, nlink: in.nlink,
		mtime: in.mtime, size: in.size, target: in.target,
	}
	switch in.mode.Type() {
	case fs.ModeDir:
		a.size = 4096
	case fs.ModeSymlink:
		a.size = int64(len(in.target))
	}
	return a
}
