package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/slipway-run/slipway/sdk"
)

func TestClassOf(t *testing.T) {
	gone := sdk.NewNotFound(sdk.KindVolume, "v")
	for name, c := range map[string]struct {
		err  error
		want sdk.Class
	}{
		"nil":                                 {nil, ""},
		"plain":                               {io.ErrUnexpectedEOF, sdk.Internal},
		"cancelled":                           {context.Canceled, ""},
		"too late, wrapped":                   {fmt.Errorf("status: %w", context.DeadlineExceeded), ""},
		"own":                                 {gone, sdk.NotFound},
		"wrapped":                             {fmt.Errorf("a: %w", fmt.Errorf("b: %w", gone)), sdk.NotFound},
		"joined":                              {errors.Join(io.EOF, gone), sdk.NotFound},
		"first of two":                        {errors.Join(gone, sdk.NewInternal(nil, "x")), sdk.NotFound},
		"its own class before its cause's":    {sdk.NewInternal(gone, "x"), sdk.Internal},
		"joined with that of a context":       {errors.Join(context.Canceled, gone), sdk.NotFound},
		"caused by a context":                 {sdk.NewUnavailable(context.Canceled, "x"), sdk.Unavailable},
		"without a class":                     {&sdk.Error{Message: "x"}, sdk.Internal},
		"with a class of another world":       {&sdk.Error{Class: "teapot"}, sdk.Internal},
		"a bare class, which is not returned": {fmt.Errorf("x: %w", sdk.NotFound), sdk.Internal},
	} {
		if got := sdk.ClassOf(c.err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestErrorsIs(t *testing.T) {
	cause := errors.New("cause")
	for name, c := range map[string]struct {
		err     error
		is, not []error
	}{
		"not found":      {sdk.NewNotFound(sdk.KindFile, "f"), []error{sdk.NotFound}, []error{sdk.Invalid, sdk.ReasonSpec, sdk.Reason("not found")}},
		"exists":         {sdk.NewAlreadyExists(sdk.KindVolume, "v"), []error{sdk.AlreadyExists}, []error{sdk.NotFound}},
		"invalid":        {sdk.NewInvalid(sdk.ReasonPath, "x"), []error{sdk.Invalid, sdk.ReasonPath}, []error{sdk.ReasonSpec}},
		"unsupported":    {sdk.NewUnsupported(sdk.FeatureTTY), []error{sdk.Unsupported}, []error{sdk.Invalid}},
		"precondition":   {sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, "c", "x"), []error{sdk.FailedPrecondition, sdk.ReasonDead}, []error{sdk.ReasonRecordLost}},
		"exhausted":      {sdk.NewExhausted(sdk.ReasonStorage, "x"), []error{sdk.Exhausted, sdk.ReasonStorage}, []error{sdk.Unavailable}},
		"unavailable":    {sdk.NewUnavailable(cause, "x"), []error{sdk.Unavailable, cause}, []error{io.EOF}},
		"internal":       {sdk.NewInternal(cause, "x"), []error{sdk.Internal, cause}, []error{sdk.Unavailable}},
		"no class":       {&sdk.Error{}, []error{sdk.Internal}, []error{sdk.Class("")}},
		"alien class":    {&sdk.Error{Class: "teapot"}, []error{sdk.Internal}, []error{sdk.Class("teapot")}},
		"new reason":     {sdk.NewInvalid("new", "x"), []error{sdk.Reason("new")}, []error{sdk.Class("new")}},
		"other contexts": {sdk.NewUnavailable(context.DeadlineExceeded, "x"), []error{context.DeadlineExceeded}, []error{context.Canceled}},
	} {
		for _, err := range []error{c.err, fmt.Errorf("wrapped: %w", c.err), errors.Join(errors.New("other"), c.err)} {
			for _, target := range c.is {
				if !errors.Is(err, target) {
					t.Errorf("%s: %#v is not %#v", name, err, target)
				}
			}
			for _, target := range c.not {
				if errors.Is(err, target) {
					t.Errorf("%s: %#v is %#v", name, err, target)
				}
			}
		}
	}
}

func TestIsNotFound(t *testing.T) {
	volume, container := sdk.NewNotFound(sdk.KindVolume, "v"), sdk.NewNotFound(sdk.KindContainer, "c")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nil":             {nil, false},
		"that kind":       {volume, true},
		"another kind":    {container, false},
		"no kind":         {&sdk.Error{Class: sdk.NotFound}, false},
		"wrapped":         {fmt.Errorf("x: %w", volume), true},
		"first in a join": {errors.Join(volume, container), true},
		"not the first":   {errors.Join(container, volume), false},
		"a cause only":    {sdk.NewInternal(volume, "x"), false},
		"another class":   {sdk.NewAlreadyExists(sdk.KindVolume, "v"), false},
		"plain":           {io.EOF, false},
	} {
		if got := sdk.IsNotFound(c.err, sdk.KindVolume); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{sdk.NewNotFound(sdk.KindVolume, "v"), `volume "v" not found`},
		{sdk.NewAlreadyExists(sdk.KindVolume, "v"), `volume "v" exists already, made with another token`},
		{sdk.NewUnsupported(sdk.FeatureTTY), `this worker does not support "tty"`},
		{sdk.NewInvalid(sdk.ReasonSpec, "%d of %s", 1, "x"), "1 of x"},
		{sdk.NewUnavailable(io.EOF, "server at %s", "x"), "server at x"},
		{&sdk.Error{Class: sdk.NotFound}, "not found"},
		{&sdk.Error{}, "internal"},
		{&sdk.Error{Class: sdk.FailedPrecondition, Kind: sdk.KindContainer, ID: "c", Reason: sdk.ReasonDead, RetryAfter: time.Second},
			`container "c": failed precondition (dead)`},
	} {
		if c.err.Error() != c.want {
			t.Errorf("got %q, want %q", c.err, c.want)
		}
	}
	if s := sdk.NewInternal(errors.New("the cause"), "message").Error(); strings.Contains(s, "cause") {
		t.Errorf("the cause is in the text: %q", s)
	}
}
