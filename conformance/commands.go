package conformance

import (
	"fmt"
	"strings"

	"github.com/slipway-run/slipway/sdk"
)

// Cmd is a program to run in a container.
type Cmd struct {
	Path string
	Args []string
}

// Commands are the few programs that cases run. Each of them exits with 0 unless it says otherwise, and prints nothing but
// what it says.
type Commands interface {
	// Exit ends with a code from 0 to 255.
	Exit(code int) Cmd
	// Print writes to stdout, then to stderr.
	Print(stdout, stderr string) Cmd
	// Args prints "[arg]" and a newline for each argument that it got.
	Args(args ...string) Cmd
	// Env prints the value of a variable in brackets and a newline, or "unset" and a newline.
	Env(name string) Cmd
	// Dir prints the working directory and a newline.
	Dir() Cmd
	// Cat copies stdin to stdout until stdin ends.
	Cat() Cmd
	// CatFile copies a file to stdout, and exits with another code than 0 if it cannot be read.
	CatFile(path string) Cmd
	// Append appends to a file, which it makes where missing, and prints the same to stdout; if it cannot write it exits with
	// another code than 0. What it says on stderr then is its own affair.
	Append(path, text string) Cmd
	// Lines prints the numbers from 1 to n, a line each.
	Lines(n int) Cmd
	// Gate prints before, awaits a line of stdin or its end, prints after, and exits with the code.
	Gate(before, after string, code int) Cmd
	// Trap prints "ready" and a newline once it handles the signal, and waits for it; then it prints "caught" and a newline and
	// exits with the code, also where a child of its own gets the signal too.
	Trap(signal sdk.Signal, code int) Cmd
	// Orphan prints "early" and a newline and exits, and leaves a child that holds stdout for an hour and would then print "late" and a
	// newline.
	Orphan() Cmd
	// Sleep prints "ready" and a newline and waits for an hour, ignoring nothing. From "ready" on it is one process: a signal to its
	// group must not be shared with a child.
	Sleep() Cmd
}

// Shell makes commands of scripts for a POSIX sh found in PATH, with cat, seq and sleep.
type Shell struct{}

func sh(script string, args ...string) Cmd {
	return Cmd{Path: "sh", Args: append([]string{"-c", script, "sh"}, args...)}
}

// Exit implements Commands, as the others do.
func (Shell) Exit(code int) Cmd { return sh(fmt.Sprintf("exit %d", code)) }

// Print writes its texts with printf, which writes nothing for an empty one.
func (Shell) Print(stdout, stderr string) Cmd {
	return sh(`printf %s "$1"; printf %s "$2" >&2`, stdout, stderr)
}

// Args prints its arguments.
func (Shell) Args(args ...string) Cmd {
	return sh(`for a in "$@"; do printf '[%s]\n' "$a"; done`, args...)
}

// Env prints a variable.
func (Shell) Env(name string) Cmd {
	return sh(fmt.Sprintf(`case "${%s+set}" in set) printf '[%%s]\n' "$%s";; *) echo unset;; esac`, name, name))
}

// Dir prints the working directory.
func (Shell) Dir() Cmd { return sh("pwd") }

// Cat runs cat.
func (Shell) Cat() Cmd { return sh("exec cat") }

// CatFile runs cat on a file.
func (Shell) CatFile(path string) Cmd { return sh(`cat "$1" 2>/dev/null`, path) }

// Append writes twice.
func (Shell) Append(path, text string) Cmd {
	return sh(`printf %s "$2" >> "$1" || exit 1; printf %s "$2"`, path, text)
}

// Lines makes way for seq.
func (Shell) Lines(n int) Cmd { return sh(fmt.Sprintf("exec seq 1 %d", n)) }

// Gate reads a line.
func (Shell) Gate(before, after string, code int) Cmd {
	return sh(`printf %s "$1"; read -r line; printf %s "$2"; exit "$3"`, before, after, fmt.Sprint(code))
}

// Trap waits in short sleeps, because a shell runs its traps between commands. The signal goes to the sleep too (rule 8), and what the
// shell says of that is no output of the case's: so it is thrown away before the word is said that lets signals come. Whether the sleep
// ends by the signal or lives through it decides nothing, for it is the shell's own trap that is awaited, and a sleep is short.
func (Shell) Trap(signal sdk.Signal, code int) Cmd {
	script := fmt.Sprintf("trap 'echo caught; exit %d' %s; exec 2>/dev/null; echo ready; while :; do sleep 0.02; done", code, signal)
	return sh(strings.TrimSpace(script))
}

// Sleep makes way for sleep, so that a signal to the group meets one process. A shell that waited for a child would share the signal with
// it: dash throws away an INT that comes between making its last command's process and running the command there, and waits on. QUIT is
// another matter: bash and busybox ignore it until they have made way.
func (Shell) Sleep() Cmd { return sh("echo ready; exec sleep 3600") }

// Pipe ends by SIGPIPE, or says that it is ignored.
func (Shell) Pipe() Cmd { return sh("kill -PIPE $$; echo ignored") }

// Orphan leaves a background job.
func (Shell) Orphan() Cmd { return sh("(sleep 3600; echo late) & echo early") }
