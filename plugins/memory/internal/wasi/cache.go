package wasi

import (
	"context"
	"crypto/sha256"
	"runtime"
	"sync"

	"github.com/tetratelabs/wazero"
)

// program is one content, compiled or about to be.
type program struct {
	key   [sha256.Size]byte
	bytes int64

	done     chan struct{} // closed when the two below are set
	compiled wazero.CompiledModule
	err      error

	users int    // who have it now; the cache's mutex guards it, and what is below
	used  uint64 // when it was last given back
}

// cache keeps compiled programs by their content. Whoever comes while a program is being compiled waits for that. Those that are used
// are kept in any case; of the others the latest ones, up to a limit.
type cache struct {
	limit   int64
	compile func([]byte) (wazero.CompiledModule, error)
	slots   chan struct{} // of compilations at once

	mu       sync.Mutex
	programs map[[sha256.Size]byte]*program
	bytes    int64
	clock    uint64
	work     sync.WaitGroup // compilations; added to with the mutex held and not closed
	closed   bool
}

func newCache(limit int64, compile func([]byte) (wazero.CompiledModule, error)) cache {
	return cache{
		limit: limit, compile: compile, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		programs: make(map[[sha256.Size]byte]*program),
	}
}

// get gives the program with this content, which must be put back. The error is that of ctx, or why this is no program. A compilation
// cannot be stopped: if ctx ends it goes on for those who ask next.
func (c *cache) get(ctx context.Context, content []byte) (*program, error) {
	key := sha256.Sum256(content)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errClosed
	}
	p := c.programs[key]
	if p == nil {
		p = &program{key: key, bytes: int64(len(content)), done: make(chan struct{})}
		c.programs[key] = p
		c.bytes += p.bytes
		c.work.Go(func() { c.make(p, content) })
	}
	p.users++
	c.mu.Unlock()
	select {
	case <-p.done:
	case <-ctx.Done():
		c.put(p)
		return nil, ctx.Err()
	}
	if p.err != nil {
		c.put(p)
		return nil, p.err
	}
	return p, nil
}

func (c *cache) make(p *program, content []byte) {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	compiled, err := c.compile(content)
	c.mu.Lock()
	defer c.mu.Unlock()
	p.compiled, p.err = compiled, err
	close(p.done)
	if err != nil {
		c.forget(p)
	}
	c.trim()
}

func (c *cache) put(p *program) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.users--
	c.clock++
	p.used = c.clock
	c.trim()
}

// trim gives up what nobody uses, the longest unused first, until the rest is within the limit. It needs the mutex.
func (c *cache) trim() {
	for c.bytes > c.limit || c.closed {
		var oldest *program
		for _, p := range c.programs {
			if p.users == 0 && p.compiled != nil && (oldest == nil || p.used < oldest.used) {
				oldest = p
			}
		}
		if oldest == nil {
			return
		}
		c.forget(oldest)
		// Nobody can have it any more. The context says nothing to wazero here, and the error is always nil.
		_ = oldest.compiled.Close(context.Background())
	}
}

func (c *cache) forget(p *program) {
	delete(c.programs, p.key)
	c.bytes -= p.bytes
}

// close ends the cache once all compilations have.
func (c *cache) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		c.work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trim()
	return nil
}
