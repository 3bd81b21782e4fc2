package rpc

import "sync"

// How much may be on its way. A window is what a receiver takes before it has been read: given once, it bounds what a
// stalled stream holds in memory, where gRPC's own estimate grows to 16 MiB, and it is there at a stream's beginning.
const (
	socketBuffer = 128 << 10 // for one system call
	sendBuffer   = 1 << 20   // of the system; less where it allows less
	streamWindow = 1 << 20
	connWindow   = 4 << 20 // given back on arrival, so that streams which nobody reads hold up no other
)

// frameSize is what gRPC puts into one HTTP/2 frame.
const frameSize = 16 << 10

// buffers is a mem.BufferPool of two sizes: a frame's, for what gRPC receives, and a chunk's, for what is sent. Unlike
// gRPC's own it does not clear what it gives: both users write before they read.
type buffers struct{ frames, chunks sync.Pool }

// Get implements mem.BufferPool.
func (b *buffers) Get(n int) *[]byte {
	switch {
	case n <= frameSize:
		return sized(&b.frames, n, frameSize)
	case n <= chunkSize:
		return sized(&b.chunks, n, chunkSize)
	}
	p := make([]byte, n)
	return &p
}

func sized(pool *sync.Pool, n, size int) *[]byte {
	if p, ok := pool.Get().(*[]byte); ok {
		*p = (*p)[:n]
		return p
	}
	p := make([]byte, n, size)
	return &p
}

// Put implements mem.BufferPool.
func (b *buffers) Put(p *[]byte) {
	switch cap(*p) {
	case frameSize:
		b.frames.Put(p)
	case chunkSize:
		b.chunks.Put(p)
	}
}
