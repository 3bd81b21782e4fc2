package tree

import (
	"fmt"
	"io/fs"
	"testing"
)

// newBudget returns a budget of which nothing may be left at the end of the
// test.
func newBudget(t testing.TB, limit int64) *Budget {
	b := NewBudget(limit)
	t.Cleanup(func() {
		if used := b.Used(); used != 0 && !t.Failed() {
			t.Errorf("budget after the last release: %d bytes", used)
		}
	})
	return b
}

// newTree returns an empty tree that is released at the end of the test.
func newTree(t testing.TB, b *Budget) *Tree {
	t.Helper()
	tr, err := New(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.Release)
	return tr
}

// audit recomputes from the trees themselves what they must have charged and
// how much is in them, and checks that every number in them is right.
func audit(b *Budget, trees ...*Tree) error {
	seen := make(map[any]bool)
	var total int64
	once := func(p any, cost int64) {
		if !seen[p] {
			seen[p] = true
			total += cost
		}
	}
	var chunks func(p *page[*chunk], height int)
	chunks = func(p *page[*chunk], height int) {
		once(p, pageCost)
		for _, k := range p.kids {
			if k != nil {
				chunks(k, height-1)
			}
		}
		for _, c := range p.vals {
			if c != nil {
				once(c, c.cost())
			}
		}
	}
	var names func(n *name)
	names = func(n *name) {
		if n == nil {
			return
		}
		once(n, n.cost())
		names(n.left)
		names(n.right)
	}
	count := func(in *inode) {
		once(in, in.cost())
		names(in.names)
		if in.data.root != nil {
			chunks(in.data.root, in.data.height)
		}
	}
	for _, t := range trees {
		t.mu.RLock()
		found := make(map[uint64]*inode)
		var inodes func(p *page[*inode], height int, base uint64)
		inodes = func(p *page[*inode], height int, base uint64) {
			once(p, pageCost)
			for i, k := range p.kids {
				if k != nil {
					inodes(k, height-1, base+uint64(i)<<uint(radixBits*height))
				}
			}
			for i, in := range p.vals {
				if in != nil {
					found[base+uint64(i)] = in
					count(in)
				}
			}
		}
		if t.inodes.root != nil {
			inodes(t.inodes.root, t.inodes.height, 0)
		}
		for _, in := range t.orphans {
			count(in)
		}
		err := consistent(t, found)
		t.mu.RUnlock()
		if err != nil {
			return err
		}
	}
	if used := b.Used(); used != total {
		return fmt.Errorf("budget says %d bytes, the trees hold %d", used, total)
	}
	return nil
}

// consistent checks link counts, parents, order and usage of one tree.
func consistent(t *Tree, found map[uint64]*inode) error {
	if t.released {
		return nil
	}
	links := map[uint64]uint32{rootIno: 2}
	var bytes int64
	for ino, in := range found {
		if in.mode.IsRegular() {
			bytes += in.size
		}
		last := ""
		var bad error
		in.names.each(func(key string, kid uint64) {
			if key <= last {
				bad = fmt.Errorf("%q comes after %q", key, last)
			}
			last = key
			child := found[kid]
			switch {
			case child == nil:
				bad = fmt.Errorf("%q names inode %d, which is missing", key, kid)
			case child.mode.IsDir():
				links[kid] += 2
				links[ino]++
				if child.parent != ino {
					bad = fmt.Errorf("%q is in %d but thinks it is in %d", key, ino, child.parent)
				}
			default:
				links[kid]++
			}
		})
		if bad != nil {
			return bad
		}
	}
	for ino, in := range found {
		if in.nlink != links[ino] {
			return fmt.Errorf("inode %d (%v) has %d links, says %d", ino, in.mode, links[ino], in.nlink)
		}
	}
	if u := (Usage{Bytes: bytes, Nodes: int64(len(found))}); u != (Usage{t.bytes, t.nodes}) {
		return fmt.Errorf("usage is %+v, the tree says %d bytes, %d nodes", u, t.bytes, t.nodes)
	}
	return nil
}

// digest lists all that can be seen of a tree.
func digest(tr *Tree) (string, error) {
	var out []byte
	var walk func(dir string) error
	walk = func(dir string) error {
		list, err := tr.List(dir)
		if err != nil {
			return err
		}
		for _, e := range list {
			fi, err := e.Info()
			if err != nil {
				return err
			}
			in := fi.(info)
			p := dir + "/" + e.Name()
			out = fmt.Appendf(out, "%s %d %v %d:%d %d %d %v %q", p, in.ino, in.mode, in.uid, in.gid, in.nlink, in.size, in.mtime, in.target)
			switch {
			case e.IsDir():
				out = append(out, '\n')
				if err := walk(p); err != nil {
					return err
				}
				continue
			case e.Type() == 0:
				data, err := fs.ReadFile(treeFS{tr}, p)
				if err != nil {
					return err
				}
				out = fmt.Appendf(out, " %x", data)
			}
			out = append(out, '\n')
		}
		return nil
	}
	err := walk("")
	return string(out), err
}

type treeFS struct{ *Tree }

func (t treeFS) Open(name string) (fs.File, error) { return t.OpenFile(name) }
