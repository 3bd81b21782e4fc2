//go:build linux

package nomadtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/nomad/api"
)

// dialLimit bounds what ctx does not: Nomad's client connects and shakes hands without one.
const dialLimit = time.Minute

var errGone = errors.New("the exec is over")

// Exec runs argv in a running task of alloc, as the driver's own user, without a terminal, and returns its exit code (128 + N after signal N) once
// all that it wrote has been given to stdout and stderr. Any of the three may be nil. stdout and stderr are written from one goroutine, and not at
// all after Exec has returned, which waits for a Write that is under way; an error of theirs ends the exec and comes back as it is.
//
// An error means that nothing is known of the command: it may not have been found, may have ended, or may still be running. So it is when ctx ends,
// for Nomad then kills only commands that write. There is no way back to it. In a task of the driver Exec a program that cannot be started gets no
// answer, nor does any Exec after it: Nomad's executor then waits for ever. Nomad sends stdin in pieces of 2 KiB.
//
// In a task of the driver Docker Nomad may take a command that dockerd has not started yet for one that has ended: then the code is 0, and what it writes
// is lost. It still runs.
//
// A Read of stdin that is under way when Exec returns is not waited for: whoever owns the reader ends it.
func (a *Agent) Exec(ctx context.Context, alloc *api.Allocation, task string, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tr, err := a.newTransport()
	if err != nil {
		return -1, err
	}
	defer tr.CloseIdleConnections()
	// Its time limit ends with the handshake: what follows is no longer HTTP.
	client, err := api.NewClient(a.apiConfig(&http.Client{Transport: tr, Timeout: dialLimit}))
	if err != nil {
		return -1, err
	}
	if stdin == nil {
		stdin = bytes.NewReader(nil)
	}
	out, errs := &gate{to: stdout, fail: cancel}, &gate{to: stderr, fail: cancel}
	code, err := client.Allocations().Exec(ctx, alloc, task, false, argv, stdin, out, errs, nil, new(api.QueryOptions).WithContext(ctx))
	if failed := cmp.Or(out.shut(), errs.shut()); failed != nil {
		return -1, failed
	}
	if err != nil && ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	if err != nil {
		return -1, fmt.Errorf("exec %q in allocation %s: %w", argv, alloc.ID, err)
	}
	if code < 0 {
		return -1, fmt.Errorf("exec %q in allocation %s: Nomad reports the exit code %d", argv, alloc.ID, code)
	}
	return code, nil
}

// gate passes writes on until it is shut. Nomad's client ignores what a writer answers, and may go on after it has returned.
type gate struct {
	to   io.Writer // nil: nowhere
	fail context.CancelCauseFunc

	mu   sync.Mutex
	err  error // what the writer answered
	gone bool
}

func (g *gate) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return 0, errGone
	}
	if g.err != nil || g.to == nil {
		return len(b), g.err
	}
	n, err := g.to.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		g.err = err
		g.fail(err)
	}
	return n, err
}

// shut waits for a write that is under way, and returns the writer's error if there was one.
func (g *gate) shut() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = true
	return g.err
}
