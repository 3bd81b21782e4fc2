package tree

import (
	"io/fs"
	"syscall"
)

// The operations on (directory, name) that unpacking needs: like those of
// ops.go, but they replace what is there as an archive's entries do.

// replace puts a file or symlink that is in no tree yet in the place of
// anything but a directory. It takes over the caller's hold, also when it
// fails.
func (t *Tree) replace(dir uint64, key string, in *inode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, err := t.replaced(dir, key)
	if err != nil {
		in.release(t.budget)
		return err
	}
	if old == 0 {
		_, err := t.adopt(dir, key, in)
		return err
	}
	t.supplant(dir, key, old, t.next)
	t.settle(dir, in)
	return nil
}

// relink makes key a name of ino in the place of anything but a directory.
func (t *Tree) relink(dir uint64, key string, ino uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, err := t.replaced(dir, key)
	if err != nil {
		return err
	}
	if t.inodes.get(ino) == nil {
		return t.gone()
	}
	if old == 0 {
		if err := t.enter(dir, key, ino); err != nil {
			return err
		}
		t.edit(ino).nlink++
		return nil
	}
	t.edit(ino).nlink++
	t.supplant(dir, key, old, ino)
	return nil
}

// replaced returns what has the name now and may lose it.
func (t *Tree) replaced(dir uint64, key string) (uint64, error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	d, err := t.dir(dir)
	if err != nil {
		return 0, err
	}
	old := d.names.get(key)
	if old != 0 && t.find(old).mode.IsDir() {
		return 0, syscall.EISDIR
	}
	return old, nil
}

// mergeDir returns the directory that has the name, made if it is missing or
// if a symlink is in its place.
func (t *Tree) mergeDir(dir uint64, key string, a attr) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.writable(); err != nil {
		return 0, err
	}
	d, err := t.dir(dir)
	if err != nil {
		return 0, err
	}
	old := d.names.get(key)
	if old != 0 {
		switch t.find(old).mode.Type() {
		case fs.ModeDir:
			return old, nil
		case fs.ModeSymlink:
		default:
			return 0, syscall.ENOTDIR
		}
	}
	in, err := newInode(t.budget, a)
	if err != nil {
		return 0, err
	}
	if old == 0 {
		return t.adopt(dir, key, in)
	}
	ino := t.next
	t.supplant(dir, key, old, ino)
	t.settle(dir, in)
	return ino, nil
}
