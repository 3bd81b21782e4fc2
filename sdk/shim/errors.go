package shim

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/shim/internal/wire"
)

// callerError is one of the caller's own callback, reader or writer.
type callerError struct{ error }

// cutError says that a session ended under a call.
type cutError struct {
	cause error
	sent  bool // the request may have gone out
}

func (e *cutError) Error() string { return fmt.Sprintf("the session was cut: %v", e.cause) }
func (e *cutError) Unwrap() error { return e.cause }

var (
	// errSlow says that the container did not answer in time.
	errSlow = errors.New("no answer in time")
	// errNotYet is the cause where there is no keeper, and may be one soon.
	errNotYet = errors.New("no keeper answers yet")
)

func errClosed() error {
	return sdk.NewUnavailable(nil, "shim: the driver is closed")
}

// helloError makes of what was wrong with an exec's first line what the caller gets.
func (x *running) helloError(err error) error {
	id := string(x.container)
	var exec error // where Exec has returned
	select {
	case <-x.done:
		exec = x.err
	default:
	}
	if _, ok := errors.AsType[*sdk.Error](exec); ok {
		return exec
	}
	var version *wire.VersionError
	switch {
	case errors.As(err, &version):
		return &sdk.Error{Class: sdk.FailedPrecondition, Kind: sdk.KindContainer, ID: id, Reason: sdk.ReasonVersion, Cause: err,
			Message: fmt.Sprintf("container %q: %v: destroy it, or use the version of the plugin that made it", id, err)}
	case errors.Is(err, wire.ErrProtocol):
		return x.broken(err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return sdk.NewUnavailable(err, "container %q: no word from its shim within %v: see whether the container is paused or out of memory%s", id, x.d.o.HelloTimeout, x.said())
	case exec != nil:
		return sdk.NewUnavailable(exec, "container %q: exec of its shim: %v%s", id, exec, x.said())
	}
	program, _ := x.d.o.Locate(x.container)
	return sdk.NewUnavailable(err, "container %q: its shim ended without a word: see whether there is one at %s%s", id, program, x.said())
}

func (x *running) broken(err error) error {
	return &sdk.Error{Class: sdk.Internal, Kind: sdk.KindContainer, ID: string(x.container), Cause: err,
		Message: fmt.Sprintf("container %q: %v; what is in the container must be taken for broken or hostile: destroy it%s", x.container, err, x.said())}
}

// fail makes of what ended a call what the caller gets.
func (c *call) fail(err error, process sdk.ProcessID) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[callerError](err); ok {
		return own.error
	}
	if err := c.outer.Err(); err != nil {
		return err
	}
	if c.c.ctx.Err() != nil {
		return context.Cause(c.c.ctx)
	}
	where := fmt.Sprintf("container %q", c.c.id)
	if process != "" {
		where += fmt.Sprintf(": process %q", process)
	}
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return err
	}
	cut, isCut := errors.AsType[*cutError](err)
	switch {
	case errors.Is(err, wire.ErrProtocol):
		return &sdk.Error{Class: sdk.Internal, Kind: sdk.KindContainer, ID: string(c.c.id), Cause: err,
			Message: fmt.Sprintf("%s: %v; what is in the container must be taken for broken or hostile: destroy it", where, err)}
	case errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return sdk.NewUnavailable(errSlow, "%s: its shim did not answer within %v: see whether the container is paused or out of memory, and try again", where, c.d.o.CallTimeout)
	case isCut && cut.sent:
		return sdk.NewUnavailable(err, "%s: the relay to its shim was cut, and the call may have taken effect: try again", where)
	case isCut:
		return sdk.NewUnavailable(err, "%s: the relay to its shim was cut: try again", where)
	}
	return sdk.NewUnavailable(err, "%s: %v", where, err)
}

// failure makes an error of what the program answered about something. What it is about, the container does not get to say.
func (c *call) failure(f *wire.Failure, kind sdk.Kind, id string, dead bool) error {
	err := f.Err()
	if err == nil {
		return nil
	}
	e := err.(*sdk.Error)
	if errors.Is(e, wire.ErrProtocol) {
		return fmt.Errorf("%w: %s", wire.ErrProtocol, e.Message)
	}
	switch {
	case e.Class == sdk.NotFound && e.Kind != kind:
		return fmt.Errorf("%w: no %s %q, when it was not asked for one", wire.ErrProtocol, e.Kind, e.ID)
	case e.Kind == sdk.KindContainer:
		e.ID = string(c.c.id)
	case e.Kind == kind:
		e.ID = id
	}
	where := fmt.Sprintf("container %q", c.c.id)
	if kind != "" {
		where += fmt.Sprintf(": %s %q", kind, id)
	}
	if dead && e.Class == sdk.NotFound && e.Kind == sdk.KindProcess { // only a live keeper's own record can tell (rule 3)
		e.Class, e.Kind, e.ID, e.Reason = sdk.FailedPrecondition, sdk.KindContainer, string(c.c.id), sdk.ReasonDead
	}
	e.Message = where + ": " + e.Message
	return e
}
