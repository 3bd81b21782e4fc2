package launch

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

// Reason is why a plugin does not run, for programs. It is itself an error, to be used as the target of errors.Is.
type Reason string

// The reasons. Those marked final are not tried again before [Options.OpenFor] has passed: trying sooner cannot help.
const (
	ReasonNotFound      Reason = "not-found"      // no such program; final
	ReasonNotExecutable Reason = "not-executable" // there is a file, but it cannot be run; final
	ReasonChecksum      Reason = "checksum"       // the file is not the pinned one; final
	ReasonDirectory     Reason = "directory"      // no private directory could be made; final
	ReasonVersion       Reason = "version"        // it speaks another version of the contract; final
	ReasonHandshake     Reason = "handshake"      // what it printed first is no handshake of a plugin; final
	ReasonConfig        Reason = "config"         // the operator's settings are wrong; final
	ReasonStart         Reason = "start"          // the system could not start it now
	ReasonDied          Reason = "died"           // it ended before it was ready
	ReasonSilent        Reason = "silent"         // it did not get ready in time
	ReasonCall          Reason = "call"           // a call that readies it failed
	ReasonExited        Reason = "exited"         // it was ready, then ended
	ReasonHung          Reason = "hung"           // it was ready, then gave no sign of life, and was killed
	ReasonStopped       Reason = "stopped"        // the host stopped it; final
)

// Error makes a Reason a target of errors.Is.
func (r Reason) Error() string { return string(r) }

func (r Reason) final() bool {
	switch r {
	case ReasonNotFound, ReasonNotExecutable, ReasonChecksum, ReasonDirectory, ReasonVersion, ReasonHandshake, ReasonConfig, ReasonStopped:
		return true
	}
	return false
}

// Error says why a plugin has no session. Its class is [sdk.Unavailable]; errors.Is also finds its Reason and what Cause holds.
type Error struct {
	Plugin     string // its name; empty from [Resolve]
	Reason     Reason
	Path       string        // of the program, where it was found
	Exit       *Exit         // of the process that failed; nil if none ran
	RetryAfter time.Duration // until the next attempt; zero: unknown, or none
	Message    string        // what, where, and what to do
	Cause      error         // may be nil
}

// Error gives the message after the plugin's name, and the lines of the process's stderr that tell most.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Plugin != "" {
		fmt.Fprintf(&b, "plugin %q: ", e.Plugin)
	}
	b.WriteString(e.Message)
	if e.Exit != nil {
		if said := excerpt(e.Exit.StderrTail); said != "" {
			b.WriteString("; on stderr it said:\n\t" + strings.ReplaceAll(said, "\n", "\n\t"))
		}
	}
	return b.String()
}

// Is finds the Reason.
func (e *Error) Is(target error) bool {
	r, ok := target.(Reason)
	return ok && e.Reason == r
}

// Unwrap gives the error of the contract: Unavailable, with RetryAfter, and Cause beneath.
func (e *Error) Unwrap() error {
	return &sdk.Error{Class: sdk.Unavailable, RetryAfter: e.RetryAfter, Message: e.Error(), Cause: e.Cause}
}

// final tells whether trying again soon cannot help. The exit codes from 64 to 78 are those of sysexits.h, by which
// a program says that of itself.
func (e *Error) final() bool {
	return e.Reason.final() || e.Exit != nil && e.Exit.Code >= 64 && e.Exit.Code <= 78
}

// Exit is how a plugin's process ended.
type Exit struct {
	PID        int
	Code       int    // -1: ended by a signal
	Signal     string // such as "SIGKILL"; empty: exited by itself
	At         time.Time
	StderrTail string // its last 64 KiB, control characters but line feeds and tabs replaced
}

// String tells the code or the signal.
func (e *Exit) String() string {
	if e.Signal != "" {
		return "ended by " + e.Signal
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// excerpt gives the few lines that tell most: the first of a panic, else the last before the goroutines that were asked for.
// What was logged is shown as its message, and left out below info.
func excerpt(tail string) string {
	const most = 10
	var said []string
	rest := tail
	for line := range strings.Lines(tail) {
		from := rest
		rest = rest[len(line):]
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "":
			continue
		case strings.HasPrefix(line, dumpPrefix):
			return shown(said, most)
		case strings.HasPrefix(line, panicPrefix), strings.HasPrefix(line, fatalPrefix):
			lines := strings.SplitN(from, "\n", most+1)
			return shown(lines[:min(most, len(lines))], most)
		}
		if entry, ok := parseEntry([]byte(line)); ok {
			if entry.level < slog.LevelInfo {
				continue
			}
			line = entry.String()
		}
		said = append(said, line)
	}
	return shown(said, most)
}

// shown cuts to the last lines, and each to a sensible width.
func shown(lines []string, most int) string {
	const width = 300
	lines = slices.Clone(lines[max(0, len(lines)-most):])
	for i, line := range lines {
		if len(line) > width {
			lines[i] = strings.ToValidUTF8(line[:width], "") + "..."
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
