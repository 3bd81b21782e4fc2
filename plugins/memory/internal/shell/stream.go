package shell

import (
	"context"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// gate passes writes on, one at a time, until it is shut.
type gate struct {
	of *process

	mu   sync.Mutex
	w    io.Writer
	shut bool
}

func newGate(of *process, w io.Writer) *gate {
	if w == nil {
		w = io.Discard
	}
	return &gate{of: of, w: w}
}

func (g *gate) Write(p []byte) (int, error) {
	if err := g.of.halt.wait(g.of.ctx); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return 0, syscall.EPIPE
	}
	return g.w.Write(p)
}

// WriteContext is Write, but where w can, one that waits ends with ctx.
func (g *gate) WriteContext(ctx context.Context, p []byte) (int, error) {
	w, ok := g.w.(contextWriter)
	if !ok {
		return g.Write(p)
	}
	if err := g.of.halt.wait(ctx); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return 0, syscall.EPIPE
	}
	return w.WriteContext(ctx, p)
}

// contextWriter is a writer that can be told to wait no longer.
type contextWriter interface {
	WriteContext(ctx context.Context, p []byte) (int, error)
}

// bound is w as long as ctx goes, where w knows contexts.
func bound(ctx context.Context, w io.Writer) io.Writer {
	if cw, ok := w.(contextWriter); ok {
		return bounded{ctx, cw}
	}
	return w
}

// bounded writes for one command.
type bounded struct {
	ctx context.Context
	contextWriter
}

func (b bounded) Write(p []byte) (int, error) { return b.WriteContext(b.ctx, p) }

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// pump is a reader as a pipe, which is what the interpreter can stop reading.
// stop ends it; a Read of r that waits then is left behind, and what it
// yields is lost.
func pump(r io.Reader) (f *os.File, stop func(), err error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		defer pw.Close()
		io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, 32<<10))
	}()
	return pr, func() { pr.Close(); pw.Close() }, nil
}

// wake ends a read that waits when ctx ends. What it returns undoes that.
func wake(ctx context.Context, f *os.File) func() {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		f.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	return func() {
		if !stop() {
			<-woken
		}
		f.SetReadDeadline(time.Time{})
	}
}

// content is an input as a pipe: what a redirection from a file becomes. The
// caller closes it; r is closed soon after, and before the process has ended.
func (p *process) content(r io.ReadCloser) (*os.File, error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		r.Close()
		return nil, err
	}
	// What fits into any pipe needs nobody to wait for the reader.
	head := make([]byte, pipeBytes+1)
	n, err := io.ReadFull(r, head)
	if err != nil {
		pw.Write(head[:n])
		pw.Close()
		r.Close()
		return pr, nil
	}
	p.mu.Lock()
	p.pipes[pr] = struct{}{}
	p.mu.Unlock()
	p.copies.Go(func() {
		defer pw.Close()
		defer r.Close()
		if _, err := pw.Write(head); err == nil {
			io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, 64<<10))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pipes, pr)
	})
	return pr, nil
}

// relayed is an input that others read as well, as a pipe: what is read ahead is lost to them.
func (p *process) relayed(r io.Reader) (*os.File, error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.pipes[pr] = struct{}{}
	p.mu.Unlock()
	p.copies.Go(func() {
		defer pw.Close()
		io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, 4096))
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pipes, pr)
	})
	return pr, nil
}

// closePipes ends the copies that still wait for a reader, and awaits them.
func (p *process) closePipes() {
	p.mu.Lock()
	for pr := range p.pipes {
		pr.Close()
	}
	p.mu.Unlock()
	p.copies.Wait()
}

// pipeBytes is what an empty pipe takes without blocking.
const pipeBytes = 4096
