//go:build linux

package nomadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// What the agent says, at this version, when its API is open, when its node has registered with its server, and when a server leads.
const (
	markServing    = "Nomad agent started!"
	markRegistered = "node registration complete"
	markLeading    = "cluster leadership acquired"
)

const (
	tailLines    = 200 // how much is kept of what a program says
	failureLines = 12  // how much of that a failed test tells: what the test itself said must stay in sight
)

var errEnded = errors.New("the program has ended")

// process is one run of a program. Its own goroutine awaits its end.
type process struct {
	name  string // as messages call it
	cmd   *exec.Cmd
	log   journal
	ended chan struct{}
	err   error // how it ended; valid once ended is closed
}

// start runs a program in the agent's directory dir. Working directory and TMPDIR are below dir for all that it starts in turn, which is how these are
// found again. Its environment is small, so that nothing of the test's own reaches tasks. marks are what it may say that await waits for.
func start(dir, name, bin string, args []string, marks ...string) (*process, error) {
	p := &process{
		name:  name,
		cmd:   exec.Command(bin, args...),
		log:   journal{marks: make(map[string]chan struct{}, len(marks))},
		ended: make(chan struct{}),
	}
	for _, m := range marks {
		p.log.marks[m] = make(chan struct{})
	}
	p.cmd.Dir = dir
	p.cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + filepath.Join(dir, "tmp")}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt is for the test, which then cleans up
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

// await waits until the program has said mark. One that ends before is errEnded, with the last that it said.
func (p *process) await(ctx context.Context, mark string) error {
	select {
	case <-p.log.marks[mark]:
		return nil
	case <-p.ended:
		return fmt.Errorf("%w (%v); it said last:\n%s", errEnded, p.err, p.log.tail(20))
	case <-ctx.Done():
		return fmt.Errorf("it did not say %q: %w; it said last:\n%s", mark, ctx.Err(), p.log.tail(20))
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

func (p *process) stop(ctx context.Context) error {
	if !p.running() {
		return nil
	}
	// An error means that it has just ended, which is awaited as well.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s (pid %d) did not stop: %w", p.name, p.pid(), ctx.Err())
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
}

// journal keeps the last lines that were written to it, and closes a mark's channel when a line has the mark.
type journal struct {
	marks map[string]chan struct{}

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
		j.add(string(line))
		j.part = rest
	}
}

func (j *journal) add(line string) {
	if len(j.lines) == tailLines {
		j.lines = j.lines[1:]
	}
	j.lines = append(j.lines, line)
	for mark, c := range j.marks {
		if !strings.Contains(line, mark) {
			continue
		}
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

func (j *journal) tail(n int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines[max(0, len(j.lines)-n):], "\n")
}
