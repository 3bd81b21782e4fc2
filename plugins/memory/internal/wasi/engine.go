package wasi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// Options are optional; zero means the default.
type Options struct {
	// Interpret executes programs by wazero's interpreter: it is many times slower, but nothing is compiled to machine code.
	// Where there is no compiler for the machine it is used anyway.
	Interpret bool
	// Memory limits the linear memory of all programs together. Nil: there is no such limit.
	Memory *Memory
	// CacheBytes is how much of programs, measured by their files, stays compiled while nothing runs them; default 64 MiB.
	CacheBytes int64
	// MaxProgramBytes is the longest file of a program; default 256 MiB.
	MaxProgramBytes int64
}

// Engine runs programs. It is safe for concurrent use, and holds nothing until the first of them is run. Close it in the end.
type Engine struct {
	opts     Options
	compiled wazero.CompilationCache // of a test: what another process has compiled; else nil

	mu      sync.Mutex
	runtime wazero.Runtime // nil until it is needed
	closed  bool
	cache   cache
}

// New returns an engine.
func New(opts Options) *Engine {
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = 64 << 20
	}
	if opts.MaxProgramBytes <= 0 {
		opts.MaxProgramBytes = 256 << 20
	}
	e := &Engine{opts: opts}
	e.cache = newCache(opts.CacheBytes, e.compile)
	return e
}

var errClosed = errors.New("the engine is closed")

// machine gives the runtime, made by the first who asks.
func (e *Engine) machine() (wazero.Runtime, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	if e.runtime != nil {
		return e.runtime, nil
	}
	config := wazero.NewRuntimeConfig()
	if e.opts.Interpret {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	// Without the first a program could not be ended; the second is DWARF, which costs more memory than the program.
	config = config.WithCloseOnContextDone(true).WithDebugInfoEnabled(false)
	if e.compiled != nil {
		config = config.WithCompilationCache(e.compiled)
	}
	ctx := context.Background() // only carries wazero's options
	rt := wazero.NewRuntimeWithConfig(ctx, config)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, rt); err != nil {
		return nil, errors.Join(err, rt.Close(ctx))
	}
	e.runtime = rt
	return rt, nil
}

// Close waits until nothing is compiled any more, and gives all memory back. No program may be running. After it everything
// fails; it can be called again if ctx ended it.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closed = true
	rt := e.runtime
	e.mu.Unlock()
	if err := e.cache.close(ctx); err != nil {
		return fmt.Errorf("wait for programs that are being compiled: %w", err)
	}
	if rt == nil {
		return nil
	}
	return rt.Close(context.WithoutCancel(ctx))
}

// Known says whether a file that begins with head, of at least 4 bytes, is WebAssembly: a program, or what Run will say is none.
func Known(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
