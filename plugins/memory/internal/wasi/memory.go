package wasi

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// Memory is a limit of linear memory, in bytes, that programs share. It is safe for concurrent use.
type Memory struct {
	what   string
	limit  int64
	within *Memory
	used   atomic.Int64
}

// NewMemory returns a limit of its own, of bytes for what, which messages name. What it gives it also takes from within, which may
// be nil.
func NewMemory(what string, bytes int64, within *Memory) *Memory {
	return &Memory{what: what, limit: bytes, within: within}
}

// Used is how much programs have now.
func (m *Memory) Used() int64 { return m.used.Load() }

// take takes n bytes of m and all around it, or tells which of them has too little left.
func (m *Memory) take(n int64) (full *Memory) {
	for l := m; l != nil; l = l.within {
		if l.used.Add(n) > l.limit {
			l.used.Add(-n)
			for taken := m; taken != l; taken = taken.within {
				taken.used.Add(-n)
			}
			return l
		}
	}
	return nil
}

func (m *Memory) give(n int64) {
	for l := m; l != nil; l = l.within {
		l.used.Add(-n)
	}
}

// errMemory ends a program that memory ran out for.
var errMemory = errors.New("out of memory")

// linear is the memory of one program; only the goroutine that runs it uses it.
type linear struct {
	limit  *Memory
	buf    []byte
	taken  int64
	peak   int64
	failed string // which limit was reached; empty: none
}

// Allocate implements experimental.MemoryAllocator. A program has one memory at most.
func (l *linear) Allocate(_, _ uint64) experimental.LinearMemory { return l }

// Reallocate implements experimental.LinearMemory. Where it cannot, it ends the program instead of leaving it to what the program makes
// of a failure: out of memory is to mean the same thing for all of them, and to be told apart from their own exits.
func (l *linear) Reallocate(size uint64) []byte {
	if more := int64(size) - l.taken; more > 0 {
		if full := l.limit.take(more); full != nil {
			l.failed = fmt.Sprintf("it asked for %d bytes in all; the limit of %s is %d", size, full.what, full.limit)
			panic(errMemory)
		}
		l.taken = int64(size)
		l.peak = max(l.peak, l.taken)
	}
	if int(size) > cap(l.buf) {
		grown := make([]byte, size, max(int(size), cap(l.buf)+cap(l.buf)/4)) // many small steps stay linear
		copy(grown, l.buf)
		l.buf = grown
	}
	l.buf = l.buf[:size] // never shorter than before, so what comes anew is zero
	return l.buf
}

// Free implements experimental.LinearMemory. It may be called again.
func (l *linear) Free() {
	l.limit.give(l.taken)
	l.taken, l.buf = 0, nil
}
