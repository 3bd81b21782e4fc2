package tree

import (
	"sync/atomic"
	"syscall"
)

const (
	chunkSize   = 64 << 10
	maxFileSize = 1 << 44 // 16 TiB, as ext4 has it
)

// chunk is a piece of a file's data, at most chunkSize long. What lies between
// its length and chunkSize reads as zeros, as does a missing chunk.
type chunk struct {
	refs atomic.Int32
	buf  []byte
}

func (c *chunk) cost() int64 { return chunkCost + int64(cap(c.buf)) }
func (c *chunk) retain()     { c.refs.Add(1) }

func (c *chunk) release(b *Budget) {
	if c.refs.Add(-1) == 0 {
		b.give(c.cost())
	}
}

// newChunk returns a chunk of length n, with room for at least room bytes, or
// ENOSPC.
func newChunk(b *Budget, n, room int) (*chunk, error) {
	room = min((max(n, room)+63)&^63, chunkSize)
	if err := b.take(chunkCost + int64(room)); err != nil {
		return nil, err
	}
	c := &chunk{buf: make([]byte, n, room)}
	c.refs.Store(1)
	return c, nil
}

// data is the content of a regular file.
type data = radix[*chunk]

// readAt fills p from off on; the caller has cut p to the file's size.
func readAt(d *data, p []byte, off int64) {
	for len(p) > 0 {
		at := int(off % chunkSize)
		n := min(len(p), chunkSize-at)
		have := 0
		if c := d.get(uint64(off / chunkSize)); c != nil && at < len(c.buf) {
			have = copy(p[:n], c.buf[at:])
		}
		clear(p[have:n])
		p, off = p[n:], off+int64(n)
	}
}

// writeAt stores p at off. It returns how many bytes were stored, fewer than
// len(p) only with ENOSPC or EFBIG.
func writeAt(d *data, b *Budget, p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		if off >= maxFileSize {
			return done, syscall.EFBIG
		}
		at := int(off % chunkSize)
		n := min(len(p)-done, chunkSize-at)
		c, err := writable(d, b, uint64(off/chunkSize), at+n)
		if err != nil {
			return done, err
		}
		if old := len(c.buf); old < at+n {
			c.buf = c.buf[:at+n]
			if old < at {
				clear(c.buf[old:at])
			}
		}
		copy(c.buf[at:], p[done:done+n])
		done, off = done+n, off+int64(n)
	}
	return done, nil
}

// writable returns the chunk at key, made one that nobody else holds and that
// has room for need bytes. Without room for it in the budget the tables do not
// grow either.
func writable(d *data, b *Budget, key uint64, need int) (*chunk, error) {
	if d.get(key) == nil {
		fresh, err := newChunk(b, 0, need)
		if err != nil {
			return nil, err
		}
		*d.slot(b, key) = fresh
		return fresh, nil
	}
	slot := d.slot(b, key)
	c := *slot
	if c.refs.Load() == 1 && cap(c.buf) >= need {
		return c, nil
	}
	room := max(need, len(c.buf))
	if cap(c.buf) < need {
		room = max(need, 2*cap(c.buf)) // appending stays linear
	}
	fresh, err := newChunk(b, len(c.buf), room)
	if err != nil {
		return nil, err
	}
	copy(fresh.buf, c.buf)
	*slot = fresh
	c.release(b)
	return fresh, nil
}

// cutAt drops everything at and after size.
func cutAt(d *data, b *Budget, size int64) {
	d.removeFrom(b, uint64((size+chunkSize-1)/chunkSize))
	keep := int(size % chunkSize)
	last := uint64(size / chunkSize)
	if c := d.get(last); c == nil || keep == 0 || len(c.buf) <= keep {
		return
	}
	slot := d.slot(b, last)
	c := *slot
	if c.refs.Load() == 1 {
		c.buf = c.buf[:keep]
		return
	}
	short := &chunk{buf: append(make([]byte, 0, keep), c.buf[:keep]...)}
	short.refs.Store(1)
	b.force(short.cost()) // making a file shorter never fails
	*slot = short
	c.release(b)
}
