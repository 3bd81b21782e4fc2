package host

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/slipway-run/slipway/host/store"
)

// ErrClosed says that the host was closed under a call. What runs goes on, and another host on the same state directory follows it.
var ErrClosed = errors.New("the host is closed")

// ErrEnded says that a process was to be ended that had ended by itself before.
var ErrEnded = errors.New("the process has ended by itself")

// LostError says that a process was started and that nothing can tell how it ended. It never means success, and never that
// it may be run again without asking.
type LostError struct {
	Owner  string
	Worker string
	Reason string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("process of %s on worker %s is lost: %s", e.Owner, e.Worker, e.Reason)
}

// AbortedError says that the process was ended because somebody asked for it, or that its container was removed while it was asked for.
type AbortedError struct {
	Owner   string
	Reason  string        // who or what asked
	Timeout time.Duration // that had passed; zero: it was for another reason
}

// abortedError is what the row of a process says that was told to end.
func abortedError(owner string, row store.Process) *AbortedError {
	e := &AbortedError{Owner: owner, Reason: row.Reason}
	if row.TimedOut {
		e.Timeout = row.Timeout
	}
	return e
}

func (e *AbortedError) Error() string { return fmt.Sprintf("%s was aborted: %s", e.Owner, e.Reason) }

// GoneError says that an owner's container is over, and that the owner does not get another one: what ran in it might run twice.
type GoneError struct {
	Owner string
	State string
	Left  []string // names of artifacts that it has left, if these are why, though it was removed
}

func (e *GoneError) Error() string {
	if len(e.Left) > 0 {
		return fmt.Sprintf("container of %s was removed, but there is still what it has made: %s; remove that for a new one, or ask under another owner", e.Owner, strings.Join(e.Left, ", "))
	}
	return fmt.Sprintf("container of %s is %s: ask under another owner for a new one, or remove this one before", e.Owner, e.State)
}

// WorkerGoneError says that a worker was away for longer than the host waits, or left a call without an answer for longer.
type WorkerGoneError struct {
	Worker string
	Away   time.Duration
	Silent bool // its status may be well, but a call was not answered
	Cause  error
}

func (e *WorkerGoneError) Error() string {
	if e.Silent {
		return fmt.Sprintf("worker %s has not answered for %s (%v): look whether what is behind it hangs", e.Worker, e.Away.Round(time.Second), e.Cause)
	}
	return fmt.Sprintf("worker %s has been away for %s: %v", e.Worker, e.Away.Round(time.Second), e.Cause)
}

func (e *WorkerGoneError) Unwrap() error { return e.Cause }

// ConfigError says that an operator's settings for a plugin do not fit what the plugin takes.
type ConfigError struct {
	Plugin      string
	Diagnostics hcl.Diagnostics
}

func (e *ConfigError) Error() string {
	return fmt.Sprint(e.Diagnostics)
}
