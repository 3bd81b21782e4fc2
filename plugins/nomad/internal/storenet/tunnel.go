package storenet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// Exec runs a command in the task of a store, with the streams copied until it ends: stdin and stdout are of type *os.File. It returns when the
// command has ended or ctx has, and uses no stream afterwards. The command's own exit status is no error. Many are called at once.
type Exec func(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error

// command is a running command, and what it prints.
type command struct {
	name    string
	in, out *os.File // our ends of its streams
	said    tail     // on its stderr
	life    context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed when Exec has returned
	err     error         // Exec's, once done is closed
}

// start runs a command until it is closed; own awaits its goroutine.
func start(own *sync.WaitGroup, exec Exec, argv ...string) (*command, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{name: argv[1], in: inW, out: outR, life: ctx, cancel: cancel, done: make(chan struct{})}
	own.Go(func() {
		defer cancel()
		c.err = exec(ctx, argv, inR, outW, &c.said)
		inR.Close()
		outW.Close()
		close(c.done)
	})
	return c, nil
}

// Read gives what the command prints. At its end it tells why the command ended, if anybody knows.
func (c *command) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if err == io.EOF {
		<-c.done
		if why := c.failure(); why != nil {
			err = why
		}
	}
	return n, err
}

// failure is what the command or Exec complained about, once it has ended.
func (c *command) failure() error {
	said := c.said.String()
	switch {
	case c.err != nil && said != "":
		return fmt.Errorf("slipway-store %s, run in the store's task: %w; it said: %s", c.name, c.err, said)
	case c.err != nil:
		return fmt.Errorf("slipway-store %s, run in the store's task: %w", c.name, c.err)
	case said != "":
		return fmt.Errorf("slipway-store %s, run in the store's task, said: %s", c.name, said)
	}
	return nil
}

// Close ends the command without waiting for it.
func (c *command) Close() error {
	c.cancel()
	return errors.Join(c.in.Close(), c.out.Close())
}

// tunnel is a command that carries a connection, see Tunnel.
type tunnel struct {
	*command
	framesIn
	framesOut
}

func startTunnel(own *sync.WaitGroup, exec Exec, argv ...string) (*tunnel, error) {
	c, err := start(own, exec, argv...)
	if err != nil {
		return nil, err
	}
	t := &tunnel{command: c, framesOut: framesOut{w: c.in}}
	t.framesIn = framesIn{r: c, gone: func() { c.Close() }}
	own.Go(func() { _ = t.beat(c.life) }) // whoever reads or writes learns of it, too
	return t, nil
}

func (t *tunnel) Read(p []byte) (int, error)  { return t.framesIn.Read(p) }
func (t *tunnel) Write(p []byte) (int, error) { return t.framesOut.Write(p) }
func (t *tunnel) SetDeadline(by time.Time) error {
	return errors.Join(t.SetReadDeadline(by), t.SetWriteDeadline(by))
}
func (t *tunnel) SetReadDeadline(by time.Time) error  { return t.out.SetReadDeadline(by) }
func (t *tunnel) SetWriteDeadline(by time.Time) error { return t.in.SetWriteDeadline(by) }
func (t *tunnel) LocalAddr() net.Addr                 { return address("here") }
func (t *tunnel) RemoteAddr() net.Addr                { return address("a command in the store's task") }

// address is a net.Addr for people.
type address string

func (address) Network() string  { return "store" }
func (a address) String() string { return string(a) }

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 1 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailBytes):]
	return len(p), nil
}

// String is fit for an error.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(t.b), "?")))
}

var _ net.Conn = (*tunnel)(nil)
