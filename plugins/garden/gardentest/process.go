//go:build linux

package gardentest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

var errEnded = errors.New("the server has ended")

// process is one run of a server. Its own goroutine awaits its end.
type process struct {
	cmd   *exec.Cmd
	log   journal
	ended chan struct{}
	err   error // how it ended; valid once ended is closed
}

// start runs a program in dir. Its environment is small, so that nothing of the test's own reaches containers.
func start(dir, bin string, args ...string) (*process, error) {
	return startAs(&syscall.SysProcAttr{}, dir, bin, args...)
}

// startApart does so in a new mount namespace: what is mounted there or here from now on is not seen on the other side.
func startApart(dir, bin string, args ...string) (*process, error) {
	return startAs(&syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}, dir, bin, args...)
}

func startAs(attr *syscall.SysProcAttr, dir, bin string, args ...string) (*process, error) {
	attr.Setpgid = true // a terminal's interrupt is for the test, which then cleans up
	p := &process{cmd: exec.Command(bin, args...), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = attr
	p.cmd.WaitDelay = 5 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// await polls ready, with growing pauses, until it succeeds. A server that ends before is errEnded, with the last that it said.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause): // servers tell of being ready by answering alone
		case <-p.ended:
			return fmt.Errorf("%w (%v); it said last:\n%s", errEnded, p.err, p.log.tail(20))
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%v); it said last:\n%s", ctx.Err(), err, p.log.tail(20))
		}
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop asks a server to end, and waits for that.
func (p *process) stop(ctx context.Context) error {
	// An error means that it has just ended, which is awaited as well.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d did not stop: %w", p.pid(), ctx.Err())
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
}

// end stops a server, by force where nothing else helps.
func (p *process) end(ctx context.Context) {
	if p.stop(ctx) != nil {
		p.kill()
	}
}

const (
	tailLines    = 400 // how much is kept of what a server says
	failureLines = 12  // how much of that a failed test tells: what the test itself said must stay in sight
)

// journal keeps the last lines that were written to it.
type journal struct {
	mu    sync.Mutex
	lines []string
	part  []byte
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.part = append(j.part, b...)
	for {
		line, rest, ok := bytes.Cut(j.part, []byte{'\n'})
		if !ok {
			return len(b), nil
		}
		if len(j.lines) == tailLines {
			j.lines = j.lines[1:]
		}
		j.lines = append(j.lines, string(line))
		j.part = rest
	}
}

func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-n):], "\n")
}
