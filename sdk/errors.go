package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Class is the kind of an error, and what a host decides by. A Class is itself an error, but only to be the target of errors.Is:
// do not return or wrap one, for it would arrive as Internal. Return an [*Error].
type Class string

// The classes. What the host does with each, by the call that ended with it, is a table of RULES.md beside this file.
const (
	// NotFound: what [Error.Kind] and [Error.ID] name is not there. A follower's container is lost after a grace, its process at
	// once. Destroying what is not there is a success: the host does not take NotFound for one, and tries again.
	NotFound Class = "not found"
	// AlreadyExists: another token holds the id. A defect, surfaced; never returned for the same token.
	AlreadyExists Class = "already exists"
	// Invalid: the request can never work. The step fails at once and is not tried again. Never returned for what might work
	// later or elsewhere.
	Invalid Class = "invalid"
	// Unsupported: this worker lacks [Error.Feature]. The host places the step elsewhere if it has no container yet, and else fails it.
	Unsupported Class = "unsupported"
	// FailedPrecondition: the thing is not in the state that the call needs; [Error.Reason] says which.
	FailedPrecondition Class = "failed precondition"
	// Exhausted: there is no room now, there may be later. The host queues. Never returned once the container exists, but
	// for the data of a volume.
	Exhausted Class = "exhausted"
	// Unavailable: the server behind the worker, or the plugin, is away. The host repeats the same idempotent call. It may or
	// may not have taken effect.
	Unavailable Class = "unavailable"
	// Internal: a defect of the plugin or of what it drives. A creation and a start that took no effect fail; what runs is followed
	// again. An error without a class is Internal.
	Internal Class = "internal"
)

// Error makes a Class a target of errors.Is.
func (c Class) Error() string { return string(c) }

// Reason is why, for programs. Its values are stable; new ones may come. A Reason is itself an error, but, as a Class, only to be
// the target of errors.Is.
type Reason string

// The reasons of the contract.
const (
	// With Invalid.
	ReasonSpec               Reason = "spec"                 // a field of a spec or another argument
	ReasonPath               Reason = "path"                 // a path: relative or absolute where it must not be, leaving its volume, or of the wrong kind of file
	ReasonImage              Reason = "image"                // the image cannot be used
	ReasonArchive            Reason = "archive"              // damaged, or it leaves the volume
	ReasonEncoding           Reason = "encoding"             // not one of Status.Encodings
	ReasonSignal             Reason = "signal"               // not one of Signals
	ReasonConfig             Reason = "config"               // settings in the operator's file
	ReasonTooLarge           Reason = "too-large"            // can never fit
	ReasonUserNotFound       Reason = "user-not-found"       // ProcessSpec.User is not in the container
	ReasonExecutableNotFound Reason = "executable-not-found" // ProcessSpec.Path is not in the container
	ReasonNotExecutable      Reason = "not-executable"       // it is there, but cannot be run

	// With FailedPrecondition.
	ReasonAbandoned  Reason = "abandoned"   // nobody is left to write the exit
	ReasonSuperseded Reason = "superseded"  // a newer follower has taken over
	ReasonOutputGap  Reason = "output-gap"  // Error.Position is the first one kept
	ReasonInUse      Reason = "in-use"      // a process lives in a container that mounts the volume writable
	ReasonSealed     Reason = "sealed"      // the volume is never written again
	ReasonNotSealed  Reason = "not-sealed"  // only a sealed volume will do
	ReasonCreating   Reason = "creating"    // the container or volume is half made
	ReasonProcesses  Reason = "processes"   // the container has had MaxProcesses
	ReasonDead       Reason = "dead"        // the container's keeper is gone for good
	ReasonRecordLost Reason = "record-lost" // and its record of processes cannot be read
	ReasonVersion    Reason = "version"     // the container's keeper speaks another version of its protocol: only destroying it works, or the plugin's other version

	// With Exhausted.
	ReasonStorage Reason = "storage" // no room for data; with FailedPrecondition: none for the container's own record of a process
	ReasonMemory  Reason = "memory"  // no memory for one more container

	// With Unavailable.
	ReasonPluginGone Reason = "plugin-gone" // the plugin's process or connection went away under the call

	// With Internal.
	ReasonPanic Reason = "panic" // the plugin's method panicked; its log has the stack
)

// Error makes a Reason a target of errors.Is.
func (r Reason) Error() string { return string(r) }

// Kind is what an error is about.
type Kind string

// The kinds of things.
const (
	KindWorker    Kind = "worker"
	KindVolume    Kind = "volume"
	KindContainer Kind = "container"
	KindProcess   Kind = "process"
	KindFile      Kind = "file"
)

// Error is an error of the contract. It crosses the wire whole, but for Cause; words that were wrapped around it cross as part of
// Message. Neither Message nor Cause may hold a secret (rule 13). A nil *Error is no error and must not be returned as one.
type Error struct {
	Class      Class         // one that is not of the contract counts as Internal
	Kind       Kind          // of the thing it is about; may be empty
	ID         string        // of that thing; of a file, its path
	Reason     Reason        // may be empty
	Feature    Feature       // with Unsupported
	Position   Position      // with ReasonOutputGap
	RetryAfter time.Duration // with Unavailable and Exhausted; zero: unknown
	Message    string        // for people: what, where, and what to do
	Cause      error         // stays on this side of the wire; should have no class, which errors.Is would find on this side only
}

// Error gives the message, or what is known where there is none.
func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	s := string(e.class())
	if e.Kind != "" {
		s = fmt.Sprintf("%s %q: %s", e.Kind, e.ID, s)
	}
	if e.Reason != "" {
		s += " (" + string(e.Reason) + ")"
	}
	return s
}

// Unwrap gives Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is work with a Class or a Reason as target.
func (e *Error) Is(target error) bool {
	switch t := target.(type) {
	case Class:
		return e.class() == t
	case Reason:
		return e.Reason == t
	}
	return false
}

// class is one of the contract's.
func (e *Error) class() Class {
	switch e.Class {
	case NotFound, AlreadyExists, Invalid, Unsupported, FailedPrecondition, Exhausted, Unavailable:
		return e.Class
	}
	return Internal
}

// ClassOf gives the class of an error: that of the first *Error in its tree, in the order of errors.As, else Internal. It is empty
// for nil and, where there is no *Error, for errors of a context, which have no class.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.class()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return ""
	}
	return Internal
}

// IsNotFound tells whether err is NotFound of that kind of thing. As with [ClassOf], the first *Error in its tree counts.
func IsNotFound(err error, kind Kind) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Class == NotFound && e.Kind == kind
}

// NewNotFound says that a thing is not there.
func NewNotFound(kind Kind, id string) error {
	return &Error{Class: NotFound, Kind: kind, ID: id, Message: fmt.Sprintf("%s %q not found", kind, id)}
}

// NewAlreadyExists says that another token holds the id.
func NewAlreadyExists(kind Kind, id string) error {
	return &Error{Class: AlreadyExists, Kind: kind, ID: id,
		Message: fmt.Sprintf("%s %q exists already, made with another token", kind, id)}
}

// NewInvalid says that a request can never work. The message is made as by fmt.Sprintf; here and below there is no %w.
func NewInvalid(reason Reason, format string, args ...any) error {
	return &Error{Class: Invalid, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// NewUnsupported says that the worker lacks a feature.
func NewUnsupported(feature Feature) error {
	return &Error{Class: Unsupported, Feature: feature, Message: fmt.Sprintf("this worker does not support %q", feature)}
}

// NewFailedPrecondition says that a thing is in the wrong state for the call.
func NewFailedPrecondition(reason Reason, kind Kind, id, format string, args ...any) error {
	return &Error{Class: FailedPrecondition, Reason: reason, Kind: kind, ID: id, Message: fmt.Sprintf(format, args...)}
}

// NewExhausted says that there is no room now.
func NewExhausted(reason Reason, format string, args ...any) error {
	return &Error{Class: Exhausted, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// NewUnavailable says that what is needed is away for now. The cause may be nil and is not added to the message.
func NewUnavailable(cause error, format string, args ...any) error {
	return &Error{Class: Unavailable, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// NewInternal reports a defect. The cause may be nil and is not added to the message.
func NewInternal(cause error, format string, args ...any) error {
	return &Error{Class: Internal, Message: fmt.Sprintf(format, args...), Cause: cause}
}
