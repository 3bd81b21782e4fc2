package claim

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

var errStalled = errors.New("the server did nothing for too long")

// watchdog ends a stream in which the server does nothing. It runs only while the server is waited for, never while the caller's reader or
// writer is.
type watchdog struct {
	mu      sync.Mutex
	timer   alarm
	limit   time.Duration
	waiting int
	cancel  context.CancelCauseFunc
}

// alarm is a [time.Timer] that calls a function.
type alarm interface {
	Reset(time.Duration) bool
	Stop() bool
}

// watch begins with waiting for the server.
func (s *Store) watch(ctx context.Context) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	d := &watchdog{limit: s.config.StreamTimeout, cancel: cancel, waiting: 1}
	d.timer = s.alarm(d.limit, func() { cancel(errStalled) })
	return ctx, d
}

// run says that the server is waited for, once more than before.
func (d *watchdog) run() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting++; d.waiting == 1 {
		d.timer.Reset(d.limit)
	}
}

// pause says that it is not waited for any more, once less than before.
func (d *watchdog) pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting--; d.waiting == 0 {
		d.timer.Stop()
	}
}

// end frees all.
func (d *watchdog) end() {
	d.timer.Stop()
	d.cancel(nil)
}

// reader waits for the server in each Read.
func (d *watchdog) reader(r io.Reader) io.Reader { return &watchedReader{d, r} }

type watchedReader struct {
	dog *watchdog
	r   io.Reader
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.dog.run()
	defer w.dog.pause()
	return w.r.Read(p)
}

// isCut tells whether a connection broke.
func isCut(err error) bool {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}

func quote(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most] + "..."
	}
	return strconv.Quote(name)
}
