package tree

import (
	"hash/maphash"
	"io/fs"
	"syscall"
)

// Operations on a directory's inode number and a name in it. Each is atomic
// and takes the lock itself. The errors are bare: syscall.Errno, or
// fs.ErrClosed after Release.

func (t *Tree) lookup(dir uint64, key string) (attr, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	d, err := t.dir(dir)
	if err != nil {
		return attr{}, err
	}
	ino := d.names.get(key)
	if ino == 0 {
		return attr{}, syscall.ENOENT
	}
	return t.find(ino).attr(ino), nil
}

func (t *Tree) stat(ino uint64) (attr, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	in := t.find(ino)
	if in == nil {
		return attr{}, t.gone()
	}
	return in.attr(ino), nil
}

// list returns a directory's entries, sorted by name.
func (t *Tree) list(dir uint64) ([]info, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	d := t.find(dir)
	if d == nil {
		return nil, t.gone()
	}
	if !d.mode.IsDir() {
		return nil, syscall.ENOTDIR
	}
	var all []info
	d.names.each(func(key string, ino uint64) {
		all = append(all, info{key, t.find(ino).attr(ino)})
	})
	return all, nil
}

// create makes a node as a says, unless the name is taken: then it returns
// what is there together with EEXIST.
func (t *Tree) create(dir uint64, key string, a attr) (attr, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, err := t.dir(dir)
	if err != nil {
		return attr{}, err
	}
	if ino := d.names.get(key); ino != 0 {
		return t.find(ino).attr(ino), syscall.EEXIST
	}
	if err := t.writable(); err != nil {
		return attr{}, err
	}
	a.mtime = now()
	if d.mode&fs.ModeSetgid != 0 {
		a.gid = d.gid
		if a.mode.IsDir() {
			a.mode |= fs.ModeSetgid
		}
	}
	in, err := newInode(t.budget, a)
	if err != nil {
		return attr{}, err
	}
	ino, err := t.adopt(dir, key, in)
	if err != nil {
		return attr{}, err
	}
	return in.attr(ino), nil
}

// adopt gives in, which is in no tree yet, a number and a name that is free.
// It takes over the caller's hold, also when it fails.
func (t *Tree) adopt(dir uint64, key string, in *inode) (uint64, error) {
	ino := t.next
	if err := t.enter(dir, key, ino); err != nil {
		in.release(t.budget)
		return 0, err
	}
	t.settle(dir, in)
	return ino, nil
}

// settle gives in the number t.next, which has a name in dir already.
func (t *Tree) settle(dir uint64, in *inode) {
	if in.mode.IsDir() {
		in.parent = dir
		t.edit(dir).nlink++
	}
	*t.inodes.slot(t.budget, t.next) = in
	t.next++
	t.nodes++
	t.bytes += in.size
}

// enter adds a name that is free to a directory that is there.
func (t *Tree) enter(dir uint64, key string, ino uint64) error {
	x := &name{key: key, ino: ino, rank: uint32(maphash.String(t.seed, key))}
	x.refs.Store(1)
	if err := t.budget.take(x.cost()); err != nil {
		return err
	}
	d := t.edit(dir)
	d.names = d.names.insert(t.budget, x)
	d.mtime = now()
	return nil
}

// leave takes a name that is there out of its directory.
func (t *Tree) leave(dir uint64, key string) {
	d := t.edit(dir)
	d.names = d.names.remove(t.budget, key)
	d.mtime = now()
}

// forget takes one link from a node that lost a name; without any it goes,
// once nobody has it open.
func (t *Tree) forget(ino uint64) {
	in := t.edit(ino)
	in.nlink--
	if in.mode.IsDir() {
		in.nlink = 0
	}
	if in.nlink > 0 {
		return
	}
	t.nodes--
	t.bytes -= in.size
	if t.opened[ino] > 0 {
		if t.orphans == nil {
			t.orphans = make(map[uint64]*inode)
		}
		in.retain()
		t.orphans[ino] = in
	}
	t.inodes.remove(t.budget, ino)
}

func (t *Tree) link(ino, dir uint64, key string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, err := t.dir(dir)
	if err != nil {
		return err
	}
	if d.names.get(key) != 0 {
		return syscall.EEXIST
	}
	in := t.inodes.get(ino)
	if in == nil {
		return t.gone()
	}
	if in.mode.IsDir() {
		return syscall.EPERM
	}
	if err := t.writable(); err != nil {
		return err
	}
	if err := t.enter(dir, key, ino); err != nil {
		return err
	}
	t.edit(ino).nlink++
	return nil
}

// remove takes away a file, a symlink or an empty directory.
func (t *Tree) remove(dir uint64, key string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, err := t.dir(dir)
	if err != nil {
		return err
	}
	ino := d.names.get(key)
	if ino == 0 {
		return syscall.ENOENT
	}
	if err := t.writable(); err != nil {
		return err
	}
	in := t.find(ino)
	if in.mode.IsDir() && in.names != nil {
		return syscall.ENOTEMPTY
	}
	t.leave(dir, key)
	if in.mode.IsDir() {
		t.edit(dir).nlink--
	}
	t.forget(ino)
	return nil
}

// supplant gives the name of old to ino. It charges nothing and cannot fail.
func (t *Tree) supplant(dir uint64, key string, old, ino uint64) {
	d := t.edit(dir)
	d.names = d.names.set(t.budget, key, ino)
	d.mtime = now()
	if t.find(old).mode.IsDir() {
		d.nlink--
	}
	t.forget(old)
}

// rename moves a node, replacing a file by a file or an empty directory by a
// directory, as rename(2) does.
func (t *Tree) rename(oldDir uint64, oldKey string, newDir uint64, newKey string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	from, err := t.dir(oldDir)
	if err != nil {
		return err
	}
	to, err := t.dir(newDir)
	if err != nil {
		return err
	}
	ino := from.names.get(oldKey)
	if ino == 0 {
		return syscall.ENOENT
	}
	if err := t.writable(); err != nil {
		return err
	}
	isDir := t.find(ino).mode.IsDir()
	if isDir && t.within(newDir, ino) {
		return syscall.EINVAL
	}
	old := to.names.get(newKey)
	if old == ino {
		return nil // two names of one file
	}
	if old != 0 {
		if err := t.replaceable(old, isDir, oldDir); err != nil {
			return err
		}
		t.supplant(newDir, newKey, old, ino)
	} else if err := t.enter(newDir, newKey, ino); err != nil {
		return err
	}
	t.leave(oldDir, oldKey)
	if isDir && oldDir != newDir {
		t.edit(oldDir).nlink--
		t.edit(newDir).nlink++
		t.edit(ino).parent = newDir
	}
	return nil
}

// replaceable says whether a node that comes from the directory from may take
// the place of old.
func (t *Tree) replaceable(old uint64, isDir bool, from uint64) error {
	in := t.find(old)
	switch {
	case in.mode.IsDir() && t.within(from, old):
		return syscall.ENOTEMPTY
	case isDir && !in.mode.IsDir():
		return syscall.ENOTDIR
	case !isDir && in.mode.IsDir():
		return syscall.EISDIR
	case isDir && in.names != nil:
		return syscall.ENOTEMPTY
	}
	return nil
}

// within says whether dir is top or lies below it.
func (t *Tree) within(dir, top uint64) bool {
	for dir != top {
		if dir == rootIno {
			return false
		}
		dir = t.find(dir).parent
	}
	return true
}

// change lets f set the metadata of a node.
func (t *Tree) change(ino uint64, f func(*inode)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(ino) == nil {
		return t.gone()
	}
	if err := t.writable(); err != nil {
		return err
	}
	f(t.edit(ino))
	return nil
}

// read fills p from off on and returns how much there was.
func (t *Tree) read(ino uint64, p []byte, off int64) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	in := t.find(ino)
	if in == nil {
		return 0, t.gone()
	}
	if off >= in.size {
		return 0, nil
	}
	p = p[:min(int64(len(p)), in.size-off)]
	readAt(&in.data, p, off)
	return len(p), nil
}

// atEnd as an offset means wherever the file ends.
const atEnd = -1

// write stores p at off, which may be atEnd. It returns how much
// was stored and the offset behind it.
func (t *Tree) write(ino uint64, p []byte, off int64) (n int, end int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(ino) == nil {
		return 0, off, t.gone()
	}
	if err := t.writable(); err != nil {
		return 0, off, err
	}
	in := t.edit(ino)
	if off == atEnd {
		off = in.size
	}
	n, err = writeAt(&in.data, t.budget, p, off)
	end = off + int64(n)
	if n > 0 {
		in.mtime = now()
		if end > in.size {
			t.resized(ino, end-in.size)
			in.size = end
		}
	}
	return n, end, err
}

func (t *Tree) truncate(ino uint64, size int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(ino) == nil {
		return t.gone()
	}
	if err := t.writable(); err != nil {
		return err
	}
	if size < 0 {
		return syscall.EINVAL
	}
	if size > maxFileSize {
		return syscall.EFBIG
	}
	in := t.edit(ino)
	if size < in.size {
		cutAt(&in.data, t.budget, size)
	}
	t.resized(ino, size-in.size)
	in.size = size
	in.mtime = now()
	return nil
}

func (t *Tree) resized(ino uint64, by int64) {
	if _, orphan := t.orphans[ino]; !orphan {
		t.bytes += by
	}
}
