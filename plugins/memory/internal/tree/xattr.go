package tree

import (
	"archive/tar"
	"fmt"
	"maps"
	"strings"
	"syscall"
)

// What a file's extended attributes may be: as much as a name and a value may be on Linux, and what readers of archives take of
// all of them together.
const (
	maxXattrName  = 255
	maxXattrValue = 64 << 10
	maxXattrs     = 512 << 10
	xattrCost     = 64 // of one; its name and value come on top
)

// xattrs are a file's extended attributes by their names. Those that an inode has are never changed, so inodes share them.
type xattrs map[string]string

func (x xattrs) cost() int64 {
	cost := int64(0)
	for name, value := range x {
		cost += xattrCost + int64(len(name)+len(value))
	}
	return cost
}

// paxXattr is before an attribute's name in the key of a PAX record. What the key cannot have is written as GNU tar does.
const paxXattr = "SCHILY.xattr."

// keptXattr says whether archives keep an attribute: those of users and of root, capabilities and access lists. Others are of one
// machine, such as security labels, or of one mount.
func keptXattr(name string) bool {
	if strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.overlay.") {
		return false
	}
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "trusted.") || name == "security.capability" ||
		strings.HasPrefix(name, "system.posix_acl_")
}

// xattrsOf are the attributes that an archive's entry has.
func xattrsOf(h *tar.Header) (xattrs, error) {
	var all xattrs
	size := 0
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, paxXattr)
		name = strings.NewReplacer("%3D", "=", "%25", "%").Replace(name)
		if !ok || !keptXattr(name) {
			continue
		}
		size += len(name) + len(value)
		if len(name) > maxXattrName || len(value) > maxXattrValue || size > maxXattrs {
			return nil, fmt.Errorf("extended attribute %.40q of %d bytes: %w", name, len(value), syscall.E2BIG)
		}
		if all == nil {
			all = make(xattrs)
		}
		all[name] = value
	}
	return all, nil
}

// records are the attributes as an archive's entry has them, nil for none.
func (x xattrs) records() map[string]string {
	if len(x) == 0 {
		return nil
	}
	records := make(map[string]string, len(x))
	for name, value := range x {
		records[paxXattr+strings.NewReplacer("%", "%25", "=", "%3D").Replace(name)] = value
	}
	return records
}

// setXattrs gives a node these attributes and no others.
func (t *Tree) setXattrs(ino uint64, x xattrs) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.find(ino)
	if old == nil {
		return t.gone()
	}
	if err := t.writable(); err != nil {
		return err
	}
	if maps.Equal(old.xattrs, x) {
		return nil
	}
	if err := t.budget.take(x.cost()); err != nil {
		return err
	}
	in := t.edit(ino)
	t.budget.give(in.xattrs.cost())
	in.xattrs = x
	return nil
}

func (t *Tree) xattrs(ino uint64) (xattrs, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	in := t.find(ino)
	if in == nil {
		return nil, t.gone()
	}
	return in.xattrs, nil
}

// CopyXattrs gives a file the extended attributes of another one, and no others. Symlinks at the paths' ends are not followed.
func (n *Namespace) CopyXattrs(cwd, from, to string) error {
	src, err := n.find(cwd, from, followSlash)
	if err != nil {
		return pathError("getxattr", from, err)
	}
	var x xattrs
	if src.node.mnt != nil {
		if x, err = src.node.mnt.tree.xattrs(src.node.ino()); err != nil {
			return pathError("getxattr", from, err)
		}
	}
	dst, err := n.find(cwd, to, followSlash)
	if err == nil {
		var t *Tree
		if t, err = dst.node.tree(); err == nil {
			err = t.setXattrs(dst.node.ino(), x)
		}
	}
	return pathError("setxattr", to, err)
}
