package wasi

import (
	"context"
	"errors"
	"io"
	"time"

	experimental "github.com/tetratelabs/wazero/experimental/sys"
)

// deadliner is a reader whose Read can be ended, as that of a pipe.
type deadliner interface{ SetReadDeadline(time.Time) error }

// input is a program's stdin. It is never handed to wazero as an *os.File, which it would treat as the machine's.
type input struct {
	ctx   context.Context
	r     io.Reader
	ahead []byte // what a poll has taken
	err   error  // that a poll has met
}

// wake ends a read that waits when ctx ends. What it returns undoes that.
func (in *input) wake() func() {
	d, ok := in.r.(deadliner)
	if !ok {
		return func() {}
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(in.ctx, func() {
		d.SetReadDeadline(time.Unix(1, 0))
		close(woken)
	})
	return func() {
		if stop() {
			return
		}
		<-woken
		d.SetReadDeadline(time.Time{})
	}
}

func (in *input) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil || len(p) == 0 {
		return 0, err
	}
	if len(in.ahead) > 0 {
		n := copy(p, in.ahead)
		in.ahead = in.ahead[n:]
		return n, nil
	}
	if in.err != nil {
		return 0, in.err
	}
	return in.r.Read(p)
}

// Poll implements experimental.Pollable: it waits until there is something to read, the end included. A negative timeout has no end.
func (in *input) Poll(flag experimental.Pflag, timeoutMillis int32) (ready bool, errno experimental.Errno) {
	if flag != experimental.POLLIN {
		return false, experimental.ENOTSUP
	}
	d, ok := in.r.(deadliner)
	if !ok || len(in.ahead) > 0 || in.err != nil {
		return true, 0 // a read may still wait, as if somebody else had been quicker
	}
	if timeoutMillis >= 0 {
		d.SetReadDeadline(time.Now().Add(time.Duration(timeoutMillis) * time.Millisecond))
		defer d.SetReadDeadline(time.Time{})
	}
	if in.ctx.Err() != nil { // the deadline above may have replaced the one that wakes
		return false, experimental.EINTR
	}
	one := make([]byte, 1)
	n, err := in.r.Read(one)
	in.ahead = one[:n]
	timeout, isTimeout := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case in.ctx.Err() != nil:
		return false, experimental.EINTR
	case n == 0 && isTimeout && timeout.Timeout():
		return false, 0
	case n == 0:
		in.err = err
	}
	return true, 0
}

// output is a program's stdout or stderr. A program whose reader went away ends, as one without a handler for SIGPIPE does.
type output struct {
	ctx  context.Context
	w    io.Writer
	stop context.CancelCauseFunc
}

// errPipe is why a program's context ended: nobody reads what it writes.
var errPipe = errors.New("broken pipe")

func (o output) Write(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.stop(errPipe)
	}
	return n, err
}
