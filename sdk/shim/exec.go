package shim

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// running is one exec of the program and our ends of its streams.
type running struct {
	d         *Driver
	container sdk.ContainerID
	verb      string
	in, out   *os.File
	r         *bufio.Reader // of out
	stderr    tail
	cancel    context.CancelFunc
	done      chan struct{} // closed when Exec has returned
	err       error         // Exec's, once done is closed
}

// start execs a verb when it is its turn, no later than turn ends. The driver owns the goroutine of Exec; somebody must call finish.
func (d *Driver) start(turn context.Context, id sdk.ContainerID, program, verb string, args ...string) (*running, error) {
	over, err := d.o.Turn(turn, id)
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		over()
		return nil, sdk.NewUnavailable(err, "container %q: no pipe for an exec: %v", id, err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		over()
		inR.Close()
		inW.Close()
		return nil, sdk.NewUnavailable(err, "container %q: no pipe for an exec: %v", id, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &running{d: d, container: id, verb: verb, in: inW, out: outR, r: bufio.NewReaderSize(outR, readBytes), cancel: cancel, done: make(chan struct{})}
	d.mu.Lock()
	d.execs++
	d.mu.Unlock()
	d.own.Go(func() {
		x.err = d.exec(ctx, id, append([]string{program, verb}, args...), inR, outW, &x.stderr)
		inR.Close()
		outW.Close()
		over()
		d.mu.Lock()
		d.execs--
		d.mu.Unlock()
		close(x.done)
	})
	return x, nil
}

// close closes our ends: what reads or writes them ends, and the command, if it is ours, does.
func (x *running) close() {
	x.in.Close()
	x.out.Close()
}

// finish closes what is open and waits for Exec, bounded: first for the command's own end, then for that of the context.
func (x *running) finish() {
	x.close()
	defer x.cancel()
	if x.wait(x.d.execGrace) {
		return
	}
	x.cancel()
	if !x.wait(x.d.closeGrace) {
		x.d.o.Log.Warn("exec does not return although its context has ended", "container", x.container, "verb", x.verb)
	}
}

func (x *running) wait(atMost time.Duration) bool {
	t := time.NewTimer(atMost)
	defer t.Stop()
	select {
	case <-x.done:
		return true
	case <-t.C:
		return false
	}
}

// hello reads the program's first line. The error is fit for the caller.
func (x *running) hello(ctx context.Context) (wire.Hello, error) {
	stop := context.AfterFunc(ctx, func() { _ = x.out.SetReadDeadline(past) })
	defer stop()
	_ = x.out.SetReadDeadline(time.Now().Add(x.d.o.HelloTimeout))
	if ctx.Err() != nil {
		return wire.Hello{}, ctx.Err()
	}
	h, err := wire.ReadHello(x.r)
	if err == nil {
		stop()
		_ = x.out.SetReadDeadline(time.Time{})
		return h, nil
	}
	x.close()
	if ctx.Err() != nil {
		return h, ctx.Err()
	}
	// Exec's own error says most, and comes after the end of its streams. Where they have ended it is on its way; so it may be where they hold
	// words of the runtime's instead of the program's.
	grace := x.d.execGrace
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, wire.ErrProtocol) {
		grace = max(grace, x.d.closeGrace)
	}
	x.wait(grace)
	return h, x.helloError(err)
}

// said quotes what the command complained about.
func (x *running) said() string {
	if s := x.stderr.String(); s != "" {
		return "; it said: " + s
	}
	return ""
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-tailBytes):]...)
	if drop := len(t.b) - tailBytes; drop > 0 {
		t.b = append(t.b[:0], t.b[drop:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return wire.Text(string(t.b))
}
