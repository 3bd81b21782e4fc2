package rpc

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// checkedPool is the real pool, but that it knows what is out, and fails a test whose buffers come back twice.
type checkedPool struct {
	t      testing.TB
	pool   buffers
	poison []byte // fills what was given back, so that whoever still reads it sees wrong bytes

	mu     sync.Mutex
	change chan struct{}
	out    map[*byte]int // by first byte: the length
}

func newCheckedPool(t testing.TB) *checkedPool {
	return &checkedPool{t: t, poison: bytes.Repeat([]byte{0xdb}, chunkSize), out: make(map[*byte]int), change: make(chan struct{})}
}

func firstOf(p *[]byte) *byte { return &(*p)[:cap(*p)][0] }

func (c *checkedPool) Get(n int) *[]byte {
	p := c.pool.Get(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.out[firstOf(p)]; taken {
		c.t.Error("a buffer that is in use was given out again")
	}
	c.out[firstOf(p)] = cap(*p)
	return p
}

func (c *checkedPool) Put(p *[]byte) {
	c.mu.Lock()
	if c.out[firstOf(p)] != cap(*p) {
		c.t.Errorf("a buffer of %d bytes came back that is not out, or not whole", cap(*p))
	}
	delete(c.out, firstOf(p))
	close(c.change)
	c.change = make(chan struct{})
	c.mu.Unlock()
	for all := (*p)[:cap(*p)]; len(all) > 0; { // a byte at a time is slow under the race detector
		all = all[copy(all, c.poison):]
	}
	c.pool.Put(p)
}

// await waits until everything is back: the transport frees after it has written.
func (c *checkedPool) await() error {
	late := testkit.Context(c.t).Done()
	for {
		c.mu.Lock()
		left, change := len(c.out), c.change
		c.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-change:
		case <-late:
			return fmt.Errorf("%d buffers were never given back", left)
		}
	}
}
