package conformance

import (
	"crypto/sha256"
	"hash"
	"io"
	"sync"
	"sync/atomic"
)

// generator is the xorshift generator of bytes that the probe has, too: both make the same of one seed.
type generator struct{ x uint64 }

func newGenerator(seed uint64) *generator {
	return &generator{x: seed*2685821657736338717 + 1442695040888963407}
}

func (g *generator) fill(p []byte) {
	for i := range p {
		g.x ^= g.x << 13
		g.x ^= g.x >> 7
		g.x ^= g.x << 17
		p[i] = byte(g.x >> 32)
	}
}

func (g *generator) Read(p []byte) (int, error) {
	g.fill(p)
	return len(p), nil
}

// countingReader gives zeros without end, counts them, and tells when it is read for the first time.
type countingReader struct {
	n     atomic.Int64
	first chan struct{}
	once  sync.Once
}

func (r *countingReader) Read(p []byte) (int, error) {
	clear(p)
	r.n.Add(int64(len(p)))
	r.once.Do(func() { close(r.first) })
	return len(p), nil
}

// hashedReader gives what another one does, and its checksum. A follower may still be in a Read of its stdin when it has returned.
type hashedReader struct {
	r io.Reader

	mu sync.Mutex
	h  hash.Hash
}

func hashed(r io.Reader) *hashedReader { return &hashedReader{r: r, h: sha256.New()} }

func (h *hashedReader) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.r.Read(p)
	h.h.Write(p[:n])
	return n, err
}

func (h *hashedReader) sum() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.h.Sum(nil)
}
