//go:build linux

package ongarden

import (
	"bufio"
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/internal/testkit"
)

// slipway is the command under way.
type slipway struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer

	lines chan string // of stdout; closed at its end
	out   strings.Builder
}

// startSlipway starts the command. The test calls wait.
func startSlipway(t *testing.T, args ...string) *slipway {
	t.Helper()
	s := &slipway{t: t, cmd: exec.CommandContext(testkit.Context(t), program("slipway"), args...), lines: make(chan string)}
	s.cmd.Stderr, s.cmd.WaitDelay = &s.stderr, 10*time.Second
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.lines)
		for r := bufio.NewReader(stdout); ; {
			line, err := r.ReadString('\n')
			s.lines <- line
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil { // the test has failed in between
			s.cmd.Process.Kill()
			s.drain()
			s.cmd.Wait()
		}
	})
	return s
}

func (s *slipway) drain() {
	for line := range s.lines {
		s.out.WriteString(line)
	}
}

// await reads stdout until a line comes that is this one.
func (s *slipway) await(want string) {
	s.t.Helper()
	for line := range s.lines {
		s.out.WriteString(line)
		if line == want {
			return
		}
	}
	s.t.Fatalf("slipway %q never says %q\nstdout: %s\nstderr: %s", s.cmd.Args[1:], want, s.out.String(), s.stderr.String())
}

// wait waits for the end, which is to be with this exit code, -1 after a kill, and gives all of stdout.
func (s *slipway) wait(code int) string {
	s.t.Helper()
	s.drain()
	err := s.cmd.Wait()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("slipway %q: exit code %d, want %d (%v)\nstdout: %s\nstderr: %s", s.cmd.Args[1:], got, code, err, s.out.String(), s.stderr.String())
	}
	return s.out.String()
}
