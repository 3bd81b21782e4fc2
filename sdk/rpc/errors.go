package rpc

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// wireClass is how one class travels.
type wireClass struct {
	class sdk.Class
	enum  pb.Class
	code  codes.Code
}

// classes is the whole mapping of errors, for both directions.
func classes() []wireClass {
	return []wireClass{
		{sdk.NotFound, pb.Class_CLASS_NOT_FOUND, codes.NotFound},
		{sdk.AlreadyExists, pb.Class_CLASS_ALREADY_EXISTS, codes.AlreadyExists},
		{sdk.Invalid, pb.Class_CLASS_INVALID, codes.InvalidArgument},
		{sdk.Unsupported, pb.Class_CLASS_UNSUPPORTED, codes.Unimplemented},
		{sdk.FailedPrecondition, pb.Class_CLASS_FAILED_PRECONDITION, codes.FailedPrecondition},
		{sdk.Exhausted, pb.Class_CLASS_EXHAUSTED, codes.ResourceExhausted},
		{sdk.Unavailable, pb.Class_CLASS_UNAVAILABLE, codes.Unavailable},
		{sdk.Internal, pb.Class_CLASS_INTERNAL, codes.Internal},
	}
}

// toStatus makes the status of what a plugin's method returned. ctx is the call's: once it has ended, a plain error is
// taken for its consequence. An error of some other context, such as a plugin's own time limit, is as plain as any and
// so Internal.
func toStatus(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return statusOf(e, err.Error())
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return statusOf(&sdk.Error{Class: sdk.Internal}, err.Error())
}

// statusOf keeps the words that a plugin wrapped around the error.
func statusOf(e *sdk.Error, message string) error {
	enum, code := pb.Class_CLASS_INTERNAL, codes.Internal
	for _, c := range classes() {
		if c.class == e.Class {
			enum, code = c.enum, c.code
		}
	}
	detail := &pb.Error{
		ErrorClass: enum,
		Kind:       text(string(e.Kind)),
		Id:         shorten(e.ID),
		Reason:     text(string(e.Reason)),
		Feature:    text(string(e.Feature)),
		Position:   int64(e.Position),
		Message:    shorten(message),
	}
	if e.RetryAfter > 0 {
		detail.RetryAfter = durationpb.New(e.RetryAfter)
	}
	s, err := status.New(code, detail.Message).WithDetails(detail)
	if err != nil {
		return status.Error(code, detail.Message)
	}
	return s.Err()
}

// maxErrorText bounds the words of an error, and an id in it: they travel in a header, and gRPC bounds those.
const maxErrorText = 4 << 10

// maxHeaders bounds all headers of one answer, in both of which the words of an error may stand, the longest spelled out.
const maxHeaders = 64 << 10

func shorten(s string) string {
	if len(s) > maxErrorText {
		s = s[:maxErrorText] + "…"
	}
	return text(s)
}

// text makes a string fit a protobuf string.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// detailOf gives the contract's error out of a status; nil if there is none.
func detailOf(s *status.Status) *sdk.Error {
	for _, d := range s.Details() {
		if e, ok := d.(*pb.Error); ok {
			return fromDetail(e)
		}
	}
	return nil
}

func fromDetail(e *pb.Error) *sdk.Error {
	class := sdk.Internal
	for _, c := range classes() {
		if c.enum == e.ErrorClass {
			class = c.class
		}
	}
	var retry time.Duration
	if e.RetryAfter != nil {
		retry = e.RetryAfter.AsDuration()
	}
	return &sdk.Error{
		Class:      class,
		Kind:       sdk.Kind(shorten(e.Kind)),
		ID:         shorten(e.Id),
		Reason:     sdk.Reason(shorten(e.Reason)),
		Feature:    sdk.Feature(shorten(e.Feature)),
		Position:   sdk.Position(e.Position),
		RetryAfter: max(retry, 0),
		Message:    shorten(e.Message),
	}
}

// fromStatus makes the caller's error of what gRPC returned. ctx is the caller's, gone tells that the plugin is known to
// be gone.
func fromStatus(ctx context.Context, err error, gone bool) error {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	if e := detailOf(s); e != nil {
		// A plugin that was cut short may call that anything; the caller knows better.
		if ctx.Err() != nil && (e.Class == sdk.Unavailable || e.Class == sdk.Internal) {
			return ctx.Err()
		}
		return e
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if gone {
		return errGone(err)
	}
	said := shorten(s.Message())
	switch s.Code() {
	case codes.DeadlineExceeded:
		if _, ok := ctx.Deadline(); ok {
			return context.DeadlineExceeded // the far clock was a little faster
		}
		return errGone(err)
	case codes.Unavailable, codes.Canceled:
		return errGone(err)
	case codes.ResourceExhausted:
		// gRPC itself says so of a message that is too large. That is not a want of room.
		return &sdk.Error{Class: sdk.Internal, Message: "plugin: " + said, Cause: err}
	}
	for _, c := range classes() {
		if c.code == s.Code() {
			return &sdk.Error{Class: c.class, Message: said, Cause: err}
		}
	}
	return &sdk.Error{Class: sdk.Internal, Message: "plugin: " + said, Cause: err}
}

// errGone says that the plugin went away under the call. What gRPC says to that is for programs: it is the cause, and no part of
// the message.
func errGone(cause error) error {
	return &sdk.Error{Class: sdk.Unavailable, Reason: sdk.ReasonPluginGone, Message: "the plugin went away under the call", Cause: cause}
}
