package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slipway-run/slipway/host"
	"github.com/slipway-run/slipway/host/api/internal/pb"
	"github.com/slipway-run/slipway/host/pool"
	"github.com/slipway-run/slipway/host/store"
	"github.com/slipway-run/slipway/sdk"
)

// Error is an error of the daemon's, as a client has it. errors.Is finds the class and the reason that it had there.
type Error struct {
	Message string
	What    What
	Cause   error // the error of the contract that it was; nil: none
}

// What is what an error says of a thing, for programs.
type What string

// What errors say.
const (
	WhatLost     What = "lost"      // the process is, see host.LostError
	WhatAborted  What = "aborted"   // the process was, or the making of a container, see host.AbortedError
	WhatGone     What = "gone"      // the container is over, see host.GoneError
	WhatNoWorker What = "no-worker" // none can take it, see pool.NoWorkerError
	WhatFull     What = "full"      // all that could take it are full, see pool.FullError
	WhatClosing  What = "closing"   // the daemon ends, and takes nothing new
	WhatDiskFull What = "disk-full" // that of the state directory is, see store.ErrFull
)

func (e *Error) Error() string { return e.Message }

// Unwrap gives Cause.
func (e *Error) Unwrap() error { return e.Cause }

// errClosing is what a daemon that ends says to all that is new.
func errClosing() error {
	return &Error{What: WhatClosing, Message: "the daemon ends and takes nothing new: ask again once another runs",
		Cause: &sdk.Error{Class: sdk.Unavailable}}
}

// invalid says that a request can never work.
func invalid(format string, args ...any) error {
	return sdk.NewInvalid(sdk.ReasonSpec, format, args...)
}

// pbError gives an error's message and what programs decide by; nil for nil.
func pbError(err error) *pb.Error {
	if err == nil {
		return nil
	}
	out := &pb.Error{Message: err.Error(), What: string(what(err))}
	if out.What == string(WhatDiskFull) {
		out.Class, out.Reason = string(sdk.Exhausted), string(sdk.ReasonStorage)
		return out
	}
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		if errors.Is(err, store.ErrNotFound) {
			out.Class = string(sdk.NotFound)
		}
		return out
	}
	out.Class, out.Reason, out.Kind, out.Id = string(e.Class), string(e.Reason), string(e.Kind), e.ID
	if e.RetryAfter > 0 {
		out.RetryAfter = durationpb.New(e.RetryAfter)
	}
	return out
}

func what(err error) What {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.What
	}
	if _, ok := errors.AsType[*host.LostError](err); ok {
		return WhatLost
	}
	if _, ok := errors.AsType[*host.AbortedError](err); ok {
		return WhatAborted
	}
	if _, ok := errors.AsType[*host.GoneError](err); ok {
		return WhatGone
	}
	if _, ok := errors.AsType[*pool.NoWorkerError](err); ok {
		return WhatNoWorker
	}
	if _, ok := errors.AsType[*pool.FullError](err); ok {
		return WhatFull
	}
	switch {
	case errors.Is(err, host.ErrClosed):
		return WhatClosing
	case errors.Is(err, store.ErrFull):
		return WhatDiskFull
	}
	return ""
}

// fromError is the reverse of pbError.
func fromError(e *pb.Error) error {
	if e == nil {
		return nil
	}
	out := &Error{Message: e.GetMessage(), What: What(e.GetWhat())}
	if e.GetClass() != "" {
		out.Cause = &sdk.Error{Class: sdk.Class(e.GetClass()), Reason: sdk.Reason(e.GetReason()), Kind: sdk.Kind(e.GetKind()), ID: e.GetId(),
			RetryAfter: e.GetRetryAfter().AsDuration(), Message: e.GetMessage()}
	}
	if out.What == WhatFull {
		out.Cause = &pool.FullError{} // which worker has what is in the message
	}
	return out
}

// answer makes an error one of the wire: with a code for all clients, and with what programs of our own decide by.
func answer(err error) error {
	if err == nil {
		return nil
	}
	if already, ok := errors.AsType[*connect.Error](err); ok {
		return already
	}
	out := connect.NewError(code(err), err)
	if d, err := connect.NewErrorDetail(pbError(err)); err == nil {
		out.AddDetail(d)
	}
	return out
}

func code(err error) connect.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	case errors.Is(err, host.ErrClosed):
		return connect.CodeUnavailable
	case errors.Is(err, store.ErrFull):
		return connect.CodeResourceExhausted
	case errors.Is(err, store.ErrNotFound):
		return connect.CodeNotFound
	}
	if _, ok := errors.AsType[*host.GoneError](err); ok {
		return connect.CodeFailedPrecondition
	}
	if _, ok := errors.AsType[*host.AbortedError](err); ok {
		return connect.CodeAborted
	}
	if _, ok := errors.AsType[*pool.NoWorkerError](err); ok {
		return connect.CodeFailedPrecondition
	}
	if _, ok := errors.AsType[*pool.FullError](err); ok {
		return connect.CodeResourceExhausted
	}
	e, ok := errors.AsType[*sdk.Error](err)
	if !ok {
		return connect.CodeInternal
	}
	switch e.Class {
	case sdk.NotFound:
		return connect.CodeNotFound
	case sdk.AlreadyExists:
		return connect.CodeAlreadyExists
	case sdk.Invalid:
		return connect.CodeInvalidArgument
	case sdk.Unsupported:
		return connect.CodeUnimplemented
	case sdk.FailedPrecondition:
		return connect.CodeFailedPrecondition
	case sdk.Exhausted:
		return connect.CodeResourceExhausted
	case sdk.Unavailable:
		return connect.CodeUnavailable
	}
	return connect.CodeInternal
}

// answered gives the error that a call to the daemon ended with, as the caller shall see it: the daemon's own, the context's, or
// that the daemon is not there.
func answered(ctx context.Context, socket string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	for _, d := range e.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*pb.Error); ok {
				return fromError(detail)
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if connect.IsWireError(err) {
		return &Error{Message: fmt.Sprintf("the daemon at %s: %s", socket, e.Message())}
	}
	return &GoneError{Address: socket, Err: e.Unwrap()}
}

// GoneError says that the daemon cannot be reached, or that it went away under a call. What it runs may well go on.
type GoneError struct {
	Address string
	Err     error
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("the daemon at %s is away: %v", e.Address, e.Err)
}

// Unwrap gives Err.
func (e *GoneError) Unwrap() error { return e.Err }
