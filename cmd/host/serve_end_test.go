//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// listens waits until a daemon listens, or has ended instead.
func (r *running) listens() bool {
	r.t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.readers.Wait()
	}()
	ctx := testkit.Context(r.t)
	for {
		r.mu.Lock()
		out, changed := r.out.String(), r.changed
		r.mu.Unlock()
		if strings.Contains(out, "slipway listens at ") {
			return true
		}
		select {
		case <-changed:
		case <-ended:
			return false
		case <-ctx.Done():
			r.t.Fatal("a daemon neither listens nor ends")
		}
	}
}

// TestServeSuccessor begins a daemon as soon as the one before has left the state directory, while that still has a client: the successor
// can be found, and stays so.
func TestServeSuccessor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	conn, err := net.Dial("unix", s.socket)
	p.must(err)
	defer conn.Close() // again, where the test fails before
	_, err = io.WriteString(conn, "PUT /v1alpha1/artifacts/stalled HTTP/1.1\r\nHost: slipway\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
	p.must(err)
	p.must(conn.SetReadDeadline(time.Now().Add(testkit.Bound(t))))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the daemon does not read an upload: %q %v", line, err)
	}
	s.signal(syscall.SIGTERM)
	s.await("no new work is taken")
	s.signal(syscall.SIGTERM)

	next := &served{p: p, socket: s.socket, http: s.http}
	testkit.Until(t, "the state directory is left", func() bool {
		next.running = p.start("serve", "--state", "state")
		if next.listens() {
			return true
		}
		next.wait().wants(codeInternal).says("in use by process") // not yet
		return false
	})
	p.must(conn.Close())
	s.wait().wants(0)
	p.run("workers", "--state", "state").wants(0)
	next.stop()
}

// TestServeAttempts has a step tried twice on a daemon: what it writes the second time is shown.
func TestServeAttempts(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{
		"j.hcl": strings.Replace(oneStep("echo made"), "outputs =", "team = \"loses\"\n    attempts = 2\n    outputs =", 1),
		"c.hcl": `plugin "memory" { command = "slipway-memory" }
worker "bad" {
  plugin = "memory"
  team   = "loses" # which is preferred for its steps
  config {
    fault {
      operation = "FollowProcess"
      kind      = "fail"
      class     = "failed-precondition"
      reason    = "abandoned"
      count     = -1
    }
  }
}
worker "good" { plugin = "memory" }
`})
	args := []string{"-c", "c.hcl", "run", "j.hcl", "--id", "a", "--state"}
	p.run(append(args, "alone")...).wants(0).prints("only | made\n")
	s := p.serve("-c", "c.hcl")
	p.run(append(args[2:], "state")...).wants(0).prints("only | made\n").says("is lost")
	s.stop()
}
