package wire

import (
	"context"
	"errors"

	"github.com/slipway-run/slipway/sdk"
)

// Failure is an error of the contract.
type Failure struct {
	Class    sdk.Class
	Kind     sdk.Kind     `json:",omitempty"`
	ID       []byte       `json:",omitempty"` // a file's need not be UTF-8
	Reason   sdk.Reason   `json:",omitempty"`
	Feature  sdk.Feature  `json:",omitempty"`
	Position sdk.Position `json:",omitempty"`
	Message  string       `json:",omitempty"`
}

// NewFailure makes a Failure of an error; nil of none. One that has no class is Internal, and one of a context, which is the
// program's own and tells the driver nothing, Unavailable.
func NewFailure(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Class: sdk.ClassOf(err), Message: Text(err.Error())}
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		f.Kind, f.ID, f.Reason, f.Feature, f.Position = e.Kind, []byte(e.ID), e.Reason, e.Feature, e.Position
	} else if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		f.Class = sdk.Unavailable
	}
	return f
}

// Err makes it an error again, nil of nil. What the keeper of one container cannot know it cannot say: a class or kind beyond its own
// things is Internal, so that no container can claim, say, that it never existed.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	e := &sdk.Error{
		Class: f.Class, Kind: f.Kind, ID: Text(string(f.ID)), Reason: sdk.Reason(identifier(string(f.Reason))),
		Feature: sdk.Feature(identifier(string(f.Feature))), Position: max(f.Position, 0), Message: Text(f.Message),
	}
	known := false
	switch f.Class {
	case sdk.Invalid, sdk.Unsupported, sdk.FailedPrecondition, sdk.AlreadyExists, sdk.Exhausted, sdk.Unavailable, sdk.Internal:
		known = true
	case sdk.NotFound:
		known = f.Kind == sdk.KindProcess || f.Kind == sdk.KindFile
	}
	switch f.Kind {
	case "", sdk.KindProcess, sdk.KindContainer, sdk.KindFile:
	default:
		known = false
	}
	if !known {
		return &sdk.Error{Class: sdk.Internal, Message: "the shim answers with an error that is not its to give: " + e.Message, Cause: ErrProtocol}
	}
	return e
}

// identifier keeps only what can be a reason or a feature.
func identifier(s string) string {
	if len(s) > 64 {
		return ""
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' {
			return ""
		}
	}
	return s
}
