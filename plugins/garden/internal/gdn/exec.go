package gdn

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"code.cloudfoundry.org/garden"
	"code.cloudfoundry.org/garden/client/connection"
)

// Exec runs a command in a container until it has ended or ctx has, and gives its exit status; after a signal that is 128 and the signal's number. It uses no stream afterwards. Stdin must be
// nil, or have a SetReadDeadline as an os.File has; it gets to the command unharmed only if it is UTF-8, and that in each Read.
//
// A command goes on when ctx ends, with its stdin at its end.
func (s *Server) Exec(ctx context.Context, handle string, spec garden.ProcessSpec, stdin io.Reader, stdout, stderr io.Writer) (status int, err error) {
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &wire{s: s, ctx: own}
	in := &held{r: stdin}
	defer in.release()
	streams := garden.ProcessIO{Stdout: stdout, Stderr: stderr}
	if stdin != nil {
		streams.Stdin = in
	}
	defer w.close()
	late := time.AfterFunc(s.c.RequestTimeout, func() { cancel(context.DeadlineExceeded) }) // the library waits without end for what the command is called
	process, err := connection.NewWithHijacker(w, s.log).Run(handle, spec, streams)
	if !late.Stop() && err == nil {
		w.close()
		_, _ = process.Wait()
		err = context.DeadlineExceeded
	}
	if err != nil {
		return 0, s.missing(ctx, handle, err)
	}
	defer context.AfterFunc(own, func() {
		w.close()
		if f, ok := stdout.(interface{ SetWriteDeadline(time.Time) error }); ok {
			_ = f.SetWriteDeadline(past) // the library may be blocked in it
		}
	})()
	status, err = process.Wait() // returns once nothing writes into stdout and stderr any more
	return status, s.missing(ctx, handle, err)
}

var past = time.Unix(1, 0)

// held is a stdin that can be taken away from the library, which reads on after the end of a command.
type held struct {
	r io.Reader

	mu   sync.Mutex // held while it is read
	done atomic.Bool
}

var errReleased = errors.New("the command has ended")

func (h *held) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done.Load() {
		return 0, errReleased
	}
	n, err := h.r.Read(p)
	if h.done.Load() { // nobody may get what was read for a command that has ended
		return 0, errReleased
	}
	return n, err
}

// release returns once no Read is under way, and none comes any more.
func (h *held) release() {
	h.done.Store(true)
	if f, ok := h.r.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = f.SetReadDeadline(past)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
}
