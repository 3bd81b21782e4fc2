package tree

import (
	"sync/atomic"
	"syscall"
)

// What a tree's parts cost, in bytes: about the memory that they take.
const (
	nodeCost  = 256 // a file, directory or symlink; a symlink's target and extended attributes come on top
	nameCost  = 96  // a name in a directory; the name's own bytes come on top
	chunkCost = 64  // a piece of file data; its capacity comes on top
	pageCost  = 320 // a page of the table of nodes, or of a file's table of pieces
)

// Budget is a limit in bytes that trees share. It is safe for concurrent use.
//
// New names and new data beyond the limit fail with ENOSPC. Tables, and copies
// of metadata that a write, a rename or a removal forces because a clone
// shares it, are charged too but never refused, so that one can always remove;
// they can take the budget past its limit by a few kilobytes for each
// operation that is accepted.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes; zero or less means no limit.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Limit is what NewBudget was given.
func (b *Budget) Limit() int64 { return b.limit }

// Used is the number of bytes charged now, by all trees together.
func (b *Budget) Used() int64 { return b.used.Load() }

// take charges n bytes, or returns ENOSPC and charges nothing.
func (b *Budget) take(n int64) error {
	for {
		old := b.used.Load()
		if b.limit > 0 && old+n > b.limit {
			return syscall.ENOSPC
		}
		if b.used.CompareAndSwap(old, old+n) {
			return nil
		}
	}
}

func (b *Budget) force(n int64) { b.used.Add(n) }
func (b *Budget) give(n int64)  { b.used.Add(-n) }
