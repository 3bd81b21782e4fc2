package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-run/slipway/internal/testkit"
)

// running is slipway under way: its output is awaited line by line.
type running struct {
	t   *testing.T
	cmd *exec.Cmd

	mu      sync.Mutex
	out     strings.Builder
	err     strings.Builder
	changed chan struct{}
	readers sync.WaitGroup
	over    chan struct{} // closed at the end of its output
}

// start starts slipway. It may run for as long as its test does.
func (p *place) start(args ...string) *running {
	p.t.Helper()
	return p.begin(p.command(args...))
}

// begin starts a command of this place.
func (p *place) begin(c *exec.Cmd) *running {
	p.t.Helper()
	r := &running{t: p.t, cmd: c, changed: make(chan struct{}), over: make(chan struct{})}
	for _, s := range []struct {
		own  io.Writer // the test's
		pipe func() (io.ReadCloser, error)
		into *strings.Builder
	}{{c.Stdout, r.cmd.StdoutPipe, &r.out}, {c.Stderr, r.cmd.StderrPipe, &r.err}} {
		if s.own != nil {
			continue
		}
		pipe, err := s.pipe()
		p.must(err)
		r.readers.Go(func() { r.collect(pipe, s.into) })
	}
	p.must(r.cmd.Start())
	go func() { // ends with the command, which the test's end kills
		r.readers.Wait()
		close(r.over)
	}()
	p.t.Cleanup(func() {
		if r.cmd.ProcessState == nil { // the test has failed in between, and its end kills what runs
			r.readers.Wait()
			r.cmd.Wait()
		}
	})
	return r
}

func (r *running) collect(from io.Reader, into *strings.Builder) {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		r.mu.Lock()
		into.WriteString(line)
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until stdout or stderr has the text.
func (r *running) await(text string) {
	r.t.Helper()
	r.awaitTimes(text, 1)
}

// awaitTimes waits until stdout or stderr has the text so often. A command that ends without is a failure at once.
func (r *running) awaitTimes(text string, times int) {
	r.t.Helper()
	ctx := testkit.Context(r.t)
	for last := false; ; {
		r.mu.Lock()
		out, err, changed := r.out.String(), r.err.String(), r.changed
		r.mu.Unlock()
		if strings.Count(out, text) >= times || strings.Count(err, text) >= times {
			return
		}
		if last || ctx.Err() != nil {
			r.t.Fatalf("slipway %q does not say %q as often as %d, ended: %t\nstdout: %s\nstderr: %s", r.cmd.Args[1:], text, times, last, tail(out), tail(err))
		}
		select {
		case <-changed:
		case <-r.over: // what it has said by now is all
			last = true
		case <-ctx.Done():
		}
	}
}

func (r *running) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// wait waits for the end.
func (r *running) wait() result {
	r.t.Helper()
	r.readers.Wait()
	err := r.cmd.Wait()
	(&place{t: r.t}).ended(err)
	return result{t: r.t, args: r.cmd.Args[1:], code: r.cmd.ProcessState.ExitCode(), out: r.out.String(), err: r.err.String()}
}
