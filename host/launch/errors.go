package launch

import (
	"fmt"
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
func excerpt(tail string) string {
	const lines, bytes = 10, 2 << 10
	for _, prefix := range []string{panicPrefix, fatalPrefix} {
		if i := lineWith(tail, prefix); i >= 0 {
			return firstLines(tail[i:], lines, bytes)
		}
	}
	if i := lineWith(tail, dumpPrefix); i >= 0 {
		tail = tail[:i]
	}
	return lastLines(tail, lines, bytes)
}

// lineWith gives where the first line with that prefix begins; -1: nowhere.
func lineWith(text, prefix string) int {
	if strings.HasPrefix(text, prefix) {
		return 0
	}
	if i := strings.Index(text, "\n"+prefix); i >= 0 {
		return i + 1
	}
	return -1
}

func firstLines(text string, lines, bytes int) string {
	text = text[:min(len(text), bytes)]
	at := 0
	for ; lines > 0; lines-- {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			at = len(text)
			break
		}
		at += i + 1
	}
	return strings.TrimRight(strings.ToValidUTF8(text[:at], "\uFFFD"), "\n")
}

func lastLines(text string, lines, bytes int) string {
	text = strings.TrimRight(text, "\n")
	if len(text) > bytes {
		text = text[len(text)-bytes:]
		if _, after, ok := strings.Cut(text, "\n"); ok {
			text = after
		}
	}
	at := len(text)
	for ; lines > 0 && at >= 0; lines-- {
		at = strings.LastIndexByte(text[:at], '\n')
	}
	return strings.ToValidUTF8(text[at+1:], "\uFFFD")
}
