package tree

import "sync/atomic"

// name is an entry of a directory and the root of the entries beneath it: a
// persistent treap, sorted by name and heap-ordered by rank. Ranks are random
// to whoever chooses the names, so its depth is logarithmic. Functions that
// change a treap take over the caller's hold on the old one.
type name struct {
	refs        atomic.Int32
	rank        uint32
	left, right *name
	key         string
	ino         uint64
}

func (n *name) cost() int64 { return nameCost + int64(len(n.key)) }

func (n *name) retain() {
	if n != nil {
		n.refs.Add(1)
	}
}

func (n *name) release(b *Budget) {
	if n == nil || n.refs.Add(-1) > 0 {
		return
	}
	b.give(n.cost())
	n.left.release(b)
	n.right.release(b)
}

// own exchanges the caller's hold on n for a copy that nobody else holds.
func (n *name) own(b *Budget) *name {
	if n.refs.Load() == 1 {
		return n
	}
	m := &name{rank: n.rank, left: n.left, right: n.right, key: n.key, ino: n.ino}
	m.refs.Store(1)
	m.left.retain()
	m.right.retain()
	b.force(m.cost())
	n.release(b)
	return m
}

// get returns the inode number of key, 0 for none.
func (n *name) get(key string) uint64 {
	for n != nil {
		switch {
		case key < n.key:
			n = n.left
		case key > n.key:
			n = n.right
		default:
			return n.ino
		}
	}
	return 0
}

// each calls f for every entry in the order of names.
func (n *name) each(f func(key string, ino uint64)) {
	if n == nil {
		return
	}
	n.left.each(f)
	f(n.key, n.ino)
	n.right.each(f)
}

// insert adds x, already charged, whose key must not be there yet.
func (n *name) insert(b *Budget, x *name) *name {
	if n == nil {
		return x
	}
	if x.rank > n.rank {
		x.left, x.right = n.split(b, x.key)
		return x
	}
	n = n.own(b)
	if x.key < n.key {
		n.left = n.left.insert(b, x)
		return n
	}
	n.right = n.right.insert(b, x)
	return n
}

// set changes the inode number of key, which must be there.
func (n *name) set(b *Budget, key string, ino uint64) *name {
	n = n.own(b)
	switch {
	case key < n.key:
		n.left = n.left.set(b, key, ino)
	case key > n.key:
		n.right = n.right.set(b, key, ino)
	default:
		n.ino = ino
	}
	return n
}

// remove takes key, which must be there, out.
func (n *name) remove(b *Budget, key string) *name {
	if key == n.key {
		l, r := n.left, n.right
		l.retain()
		r.retain()
		n.release(b)
		return merge(b, l, r)
	}
	n = n.own(b)
	if key < n.key {
		n.left = n.left.remove(b, key)
		return n
	}
	n.right = n.right.remove(b, key)
	return n
}

// split parts n into the names before key and those after it.
func (n *name) split(b *Budget, key string) (l, r *name) {
	if n == nil {
		return nil, nil
	}
	n = n.own(b)
	if n.key < key {
		n.right, r = n.right.split(b, key)
		return n, r
	}
	l, n.left = n.left.split(b, key)
	return l, n
}

// merge joins two treaps, all names of l being before those of r.
func merge(b *Budget, l, r *name) *name {
	if l == nil {
		return r
	}
	if r == nil {
		return l
	}
	if l.rank >= r.rank {
		l = l.own(b)
		l.right = merge(b, l.right, r)
		return l
	}
	r = r.own(b)
	r.left = merge(b, l, r.left)
	return r
}
