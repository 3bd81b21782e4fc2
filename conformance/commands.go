package conformance

import (
	"fmt"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// Command is a program to run in a container.
type Command struct {
	Path string
	Args []string
}

// Commands are the few programs that cases run. Each of them exits with 0 unless it says otherwise, and prints nothing but
// what it says.
type Commands interface {
	// Exit ends with a code from 0 to 255.
	Exit(code int) Command
	// Print writes to stdout, then to stderr.
	Print(stdout, stderr string) Command
	// Args prints "[arg]" and a newline for each argument that it got.
	Args(args ...string) Command
	// Env prints the value of a variable in brackets and a newline, or "unset" and a newline.
	Env(name string) Command
	// Dir prints the working directory and a newline.
	Dir() Command
	// Cat copies stdin to stdout until stdin ends.
	Cat() Command
	// CatFile copies a file to stdout, and exits with another code than 0 if it cannot be read.
	CatFile(path string) Command
	// Append appends to a file, which it makes where missing, and prints the same to stdout; if it cannot write it exits with
	// another code than 0. What it says on stderr then is its own affair.
	Append(path, text string) Command
	// Lines prints the numbers from 1 to n, a line each.
	Lines(n int) Command
	// Gate prints before, awaits a line of stdin or its end, prints after, and exits with the code.
	Gate(before, after string, code int) Command
	// Trap prints "ready" and a newline once it handles the signal, and waits for it; then it prints "caught" and a newline and
	// exits with the code.
	Trap(signal sdk.Signal, code int) Command
	// Sleep prints "ready" and a newline and waits for an hour, ignoring nothing.
	Sleep() Command
}

// Shell makes commands of scripts for a POSIX sh found in PATH, with cat, seq and sleep.
type Shell struct{}

func sh(script string, args ...string) Command {
	return Command{Path: "sh", Args: append([]string{"-c", script, "sh"}, args...)}
}

// Exit implements Commands, as the others do.
func (Shell) Exit(code int) Command { return sh(fmt.Sprintf("exit %d", code)) }

// Print writes its texts with printf.
func (Shell) Print(stdout, stderr string) Command {
	return sh(`if [ -n "$1" ]; then printf %s "$1"; fi; if [ -n "$2" ]; then printf %s "$2" >&2; fi`, stdout, stderr)
}

// Args prints its arguments.
func (Shell) Args(args ...string) Command {
	return sh(`for a in "$@"; do printf '[%s]\n' "$a"; done`, args...)
}

// Env prints a variable.
func (Shell) Env(name string) Command {
	return sh(fmt.Sprintf(`if [ "${%s+set}" = set ]; then printf '[%%s]\n' "$%s"; else echo unset; fi`, name, name))
}

// Dir prints the working directory.
func (Shell) Dir() Command { return sh("pwd") }

// Cat runs cat.
func (Shell) Cat() Command { return sh("exec cat") }

// CatFile runs cat on a file.
func (Shell) CatFile(path string) Command { return sh(`cat "$1" 2>/dev/null`, path) }

// Append writes twice.
func (Shell) Append(path, text string) Command {
	return sh(`printf %s "$2" >> "$1" || exit 1; printf %s "$2"`, path, text)
}

// Lines runs seq.
func (Shell) Lines(n int) Command { return sh(fmt.Sprintf("seq 1 %d", n)) }

// Gate reads a line.
func (Shell) Gate(before, after string, code int) Command {
	return sh(`printf %s "$1"; read -r line; printf %s "$2"; exit "$3"`, before, after, fmt.Sprint(code))
}

// Trap waits in short sleeps, because a shell runs its traps between commands.
func (Shell) Trap(signal sdk.Signal, code int) Command {
	script := fmt.Sprintf("trap 'echo caught; exit %d' %s; echo ready; while :; do sleep 0.02; done", code, signal)
	return sh(strings.TrimSpace(script))
}

// Sleep waits.
func (Shell) Sleep() Command { return sh("echo ready; sleep 3600") }
