package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/slipway-run/slipway/internal/testkit"
)

// terminal opens a pseudo-terminal of a width.
func terminal(t *testing.T, columns uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		testkit.Lacking(t, "pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		testkit.Lacking(t, "pseudo-terminals: %v", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// onTerminal runs slipway on a terminal and gives what is written there.
func onTerminal(p *place, columns uint16, args ...string) (string, *exec.Cmd) {
	p.t.Helper()
	master, slave := terminal(p.t, columns)
	c := p.command(args...)
	c.Stdout, c.Stderr = slave, slave
	p.must(c.Start())
	slave.Close()
	var text bytes.Buffer
	_, err := text.ReadFrom(master)
	if err != nil && !strings.Contains(err.Error(), syscall.EIO.Error()) { // how a terminal ends
		p.t.Error(err)
	}
	p.ended(c.Wait())
	return strings.ReplaceAll(text.String(), "\r\n", "\n"), c
}

// TestTerminal wants colours and progress on a terminal only, and long lines of slipway's own broken to fit.
func TestTerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t).write(map[string]string{"in/big": strings.Repeat("x", 1<<20), "j.hcl": `job "j" {
  input "in" {}
  step "a" {
    inputs = { in = input.in }
    run {
      path = "echo"
      args = ["hello"]
    }
  }
  step "long" {
    run { path = "false" }
  }
}
`})
	p.env = append(p.env, "TERM=xterm")
	text, c := onTerminal(p, 80, "run", "j.hcl", "-i", "in=in")
	for _, want := range []string{"\x1b[36ma\x1b[0m    | hello\n", "\x1b[33mlong\x1b[0m - \x1b[31mfailed: exit code 1\x1b[0m\n", "\x1b[32msucceeded\x1b[0m\n", "\r\x1b[K"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q on the terminal:\n%q", want, text)
		}
	}
	if c.ProcessState.ExitCode() != codeStepFailed {
		t.Errorf("exit code %d", c.ProcessState.ExitCode())
	}

	plain := p.run("run", "j.hcl", "-i", "in=in").wants(codeStepFailed)
	if strings.ContainsAny(plain.out+plain.err, "\x1b\r") {
		t.Errorf("escape sequences without a terminal: %q %q", plain.out, plain.err)
	}
	dumb := *p
	dumb.env = append(slices.Clone(p.env), "TERM=dumb")
	if text, _ = onTerminal(&dumb, 80, "run", "j.hcl", "-i", "in=in"); !strings.Contains(text, "a    | hello\n") || strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("escape sequences on a terminal that knows none: %q", text)
	}
	p.env = append(p.env, "NO_COLOR=1")
	if text, _ = onTerminal(p, 80, "run", "j.hcl", "-i", "in=in"); strings.Contains(text, "\x1b[3") {
		t.Errorf("colours in spite of NO_COLOR: %q", text)
	}

	text, _ = onTerminal(p, 20, "run", "j.hcl", "-i", "in=in")
	_, blocks, _ := strings.Cut(text, "\n\na\n worker memory\n")
	if first, second, _ := strings.Cut(blocks, "\nlong\n"); !strings.Contains(first, "\n exit   0\n result succeeded") || !strings.Contains(second, "\n exit   1\n result failed\n") {
		t.Errorf("a table that does not fit: %q", text)
	}

	p.env = append(p.env, "PATH=/some/where:/some/where/else:/and/again/some/where:/no/where")
	p.write(map[string]string{"c.hcl": "plugin \"g\" { command = \"slipway-garden\" }\nworker \"w\" { plugin = \"g\" }\n"})
	text, _ = onTerminal(p, 60, "-c", "c.hcl", "exec", "true")
	for line := range strings.Lines(text) {
		if len(line) > 61 {
			t.Errorf("%q does not fit into 60 columns", line)
		}
	}
	if !strings.Contains(strings.ReplaceAll(text, "\n    ", " "), "/no/where/slipway-garden (not there); install it there") {
		t.Errorf("the message was changed by breaking it: %q", text)
	}
}

// TestConformanceOnTerminal wants a last line that tells what is run, and no line for what passes.
func TestConformanceOnTerminal(t *testing.T) {
	t.Parallel()
	p, good, _ := suitePlace(t)
	out, _ := onTerminal(p, 100, "conformance", "run", good, "--only", "P01-*,P02-*", "--time-scale", unhurried)
	before, after, _ := strings.Cut(out, "profile ")
	for _, want := range []string{"0 of 3: ", "P01-run-true", "3 of 3: ", "\x1b[K"} {
		if !strings.Contains(before, want) {
			t.Errorf("no %q in\n%q", want, before)
		}
	}
	if strings.Contains(before, "core/P01-run-true") || !strings.Contains(after, "\ncore") || strings.Contains(after, "\x1b[K") {
		t.Errorf("what passed has a line, or the report is not whole:\n%q", out)
	}
}
