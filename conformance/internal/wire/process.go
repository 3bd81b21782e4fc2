package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Cookie is the variable by which a plugin knows that a host has started it, and its value.
const (
	CookieName  = "SLIPWAY_PLUGIN"
	CookieValue = "slipway-runtime-v1"
)

// SocketDir names the variable with the directory where a plugin's socket must lie.
const SocketDir = "PLUGIN_UNIX_SOCKET_DIR"

// Program is what to start.
type Program struct {
	Path   string // absolute
	Dir    string // its working directory; empty: this process's
	Args   []string
	Env    map[string]string // beside what every plugin gets
	ByHand bool              // it gets nothing by which it could know a host
}

// Process is a plugin's process. Its methods may be called from many goroutines.
type Process struct {
	cmd   *exec.Cmd
	dir   string // its own: HOME, with its socket and its temporary files
	stdin io.Closer
	first chan string   // the first line on stdout; closed when there will be none
	done  chan struct{} // closed when it has ended and all that it wrote is read
	end   error         // of Wait, once done is closed

	mu      sync.Mutex
	printed []byte // on stdout after the first line
	said    []byte // on stderr
	conns   []*Conn
}

// lastWords is how long a child that holds its pipes is heard after a program's end.
const lastWords = time.Second

// most bounds what is kept of what a plugin writes: the beginning on stdout, the end on stderr.
const most = 64 << 10

// Start starts a program. Whoever calls it calls [Process.Close].
func Start(p Program) (*Process, error) {
	dir, err := os.MkdirTemp("", "slipway-wire") // its path must be short: a socket's is limited
	if err != nil {
		return nil, err
	}
	proc, err := start(p, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return proc, nil
}

func start(p Program, dir string) (*Process, error) {
	sockets, temp := filepath.Join(dir, "s"), filepath.Join(dir, "tmp")
	if err := errors.Join(os.Mkdir(sockets, 0o700), os.Mkdir(temp, 0o700)); err != nil {
		return nil, err
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Dir = p.Dir
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": dir, "TMPDIR": temp, "LANG": "C.UTF-8",
	}
	for name, value := range p.Env {
		env[name] = value
	}
	if !p.ByHand {
		env[CookieName], env[SocketDir], env["PLUGIN_PROTOCOL_VERSIONS"] = CookieValue, sockets, "1"
	}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	proc := &Process{cmd: cmd, dir: dir, stdin: stdin, first: make(chan string, 1), done: make(chan struct{})}
	var readers sync.WaitGroup
	readers.Go(func() { proc.readStdout(stdout) })
	readers.Go(func() { proc.readStderr(stderr) })
	go func() {
		defer close(proc.done)
		state, err := cmd.Process.Wait() // before the pipes are at their end: a child may hold them
		read := make(chan struct{})
		go func() {
			defer close(read)
			readers.Wait()
		}()
		select {
		case <-read:
		case <-time.After(lastWords):
		}
		stdout.Close()
		stderr.Close()
		<-read
		if err == nil && !state.Success() {
			err = &exec.ExitError{ProcessState: state}
		}
		proc.end = err
	}()
	return proc, nil
}

func (p *Process) readStdout(r io.Reader) {
	defer close(p.first)
	b := bufio.NewReader(r)
	line, err := b.ReadString('\n')
	if err != nil && line == "" {
		return
	}
	p.first <- strings.TrimSuffix(line, "\n")
	p.read(b, func(piece []byte) {
		p.printed = append(p.printed, piece[:min(len(piece), most-len(p.printed))]...)
	})
}

func (p *Process) readStderr(r io.Reader) {
	p.read(r, func(piece []byte) {
		p.said = append(p.said, piece...)
		p.said = p.said[max(0, len(p.said)-most):]
	})
}

func (p *Process) read(r io.Reader, keep func([]byte)) {
	piece := make([]byte, 4<<10)
	for {
		n, err := r.Read(piece)
		p.mu.Lock()
		keep(piece[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// ErrNoLine says that a program has printed nothing and will print nothing.
var ErrNoLine = errors.New("it has ended, or closed its stdout, without a line there")

// Line awaits the first line on stdout, without its newline. It may be asked for once.
func (p *Process) Line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.first:
		if !ok {
			return "", ErrNoLine
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Socket awaits the handshake, and gives the socket in it.
func (p *Process) Socket(ctx context.Context) (string, error) {
	line, err := p.Line(ctx)
	if err != nil {
		return "", err
	}
	part := strings.Split(line, "|")
	if len(part) != 6 || part[0] != "1" || part[1] != "1" || part[2] != "unix" || part[4] != "grpc" || part[5] != "" {
		return "", &LineError{line}
	}
	return part[3], nil
}

// LineError says that a program's first line is no handshake.
type LineError struct{ Line string }

func (e *LineError) Error() string {
	return fmt.Sprintf("the first line on stdout is %.200q, want 1|1|unix|PATH|grpc|", e.Line)
}

// Sockets is the directory where the plugin's socket must lie.
func (p *Process) Sockets() string { return filepath.Join(p.dir, "s") }

// Printed is what came on stdout after the first line.
func (p *Process) Printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.printed)
}

// Said is what it wrote to stderr last.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.said)
}

// CloseStdin tells it to end.
func (p *Process) CloseStdin() error { return p.stdin.Close() }

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Wait awaits its end, and tells how it ended: nil is the exit code 0, and an *exec.ExitError another end.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.end
	case <-ctx.Done():
		return fmt.Errorf("it has not ended: %w", ctx.Err())
	}
}

// Close ends it, orderly if it ends before ctx does, and removes its directory.
func (p *Process) Close(ctx context.Context) error {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.conn.Close() // it may be closed already
	}
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // it may have ended just now
		<-p.done
	}
	return os.RemoveAll(p.dir)
}
