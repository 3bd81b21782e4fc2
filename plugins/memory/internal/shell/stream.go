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
	mu   sync.Mutex
	w    io.Writer
	shut bool
}

func newGate(w io.Writer) *gate {
	if w == nil {
		w = io.Discard
	}
	return &gate{w: w}
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return 0, syscall.EPIPE
	}
	return g.w.Write(p)
}

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

// content is bytes to be read as a pipe: what a redirection from a file
// becomes. The reader owns f; once it is closed, r is closed soon.
func content(r io.ReadCloser) (f *os.File, err error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		r.Close()
		return nil, err
	}
	// What fits into any pipe needs nobody to wait for the reader.
	head := make([]byte, pipeBytes+1)
	n, err := io.ReadFull(r, head)
	if n <= pipeBytes && (err == io.EOF || err == io.ErrUnexpectedEOF) {
		pw.Write(head[:n])
		pw.Close()
		r.Close()
		return pr, nil
	}
	go func() {
		defer pw.Close()
		defer r.Close()
		if _, werr := pw.Write(head[:n]); werr != nil || err != nil {
			return
		}
		io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	}()
	return pr, nil
}

// pipeBytes is what an empty pipe takes without blocking.
const pipeBytes = 4096
