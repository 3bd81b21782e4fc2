package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/slipway-run/slipway/sdk"
)

// TestWants: what a case wants of an error is that one, and no other of all that a runtime may give. Whatever class, reason or kind a helper did not
// look at, plugins could get wrong.
func TestWants(t *testing.T) {
	errs := map[string]error{
		"success":        nil,
		"no class":       errors.New("x"),
		"a context's":    context.Canceled,
		"not executable": sdk.NewInvalid(sdk.ReasonNotExecutable, "x"),
		"wrong spec":     sdk.NewInvalid(sdk.ReasonSpec, "x"),
		"dead":           sdk.NewFailedPrecondition(sdk.ReasonDead, sdk.KindContainer, "c", "x"),
		"unavailable":    sdk.NewUnavailable(nil, "x"),
		"internal":       sdk.NewInternal(nil, "x"),
		"unsupported":    sdk.NewUnsupported(sdk.FeatureUsers),
		"exists":         sdk.NewAlreadyExists(sdk.KindContainer, "c"),
		"no container":   sdk.NewNotFound(sdk.KindContainer, "c"),
		"no process":     sdk.NewNotFound(sdk.KindProcess, "p"),
		"no volume":      sdk.NewNotFound(sdk.KindVolume, "v"),
		"no kind":        &sdk.Error{Class: sdk.NotFound, Message: "x"},
	}
	for _, want := range []struct {
		name string
		is   func(*C, error) bool
		of   []string
	}{
		{"class Invalid", func(c *C, err error) bool { return c.WantClass(err, sdk.Invalid, "why", "what") }, []string{"not executable", "wrong spec"}},
		{"class Unavailable", func(c *C, err error) bool { return c.WantClass(err, sdk.Unavailable, "why", "what") }, []string{"unavailable"}},
		{"reason spec", func(c *C, err error) bool { return c.WantReason(err, sdk.Invalid, sdk.ReasonSpec, "why", "what") }, []string{"wrong spec"}},
		{"reason spec of another class", func(c *C, err error) bool { return c.WantReason(err, sdk.Unavailable, sdk.ReasonSpec, "why", "what") }, nil},
		{"no container", func(c *C, err error) bool { return c.WantNotFound(err, sdk.KindContainer, "why", "what") }, []string{"no container"}},
		{"no process", func(c *C, err error) bool { return c.WantNotFound(err, sdk.KindProcess, "why", "what") }, []string{"no process"}},
	} {
		wanted := make(map[string]bool)
		for _, name := range want.of {
			wanted[name] = true
		}
		for name, err := range errs {
			t.Run(fmt.Sprintf("%s/%s", want.name, name), func(t *testing.T) {
				c := &C{suite: &suite{}}
				if is := want.is(c, err); is != wanted[name] || c.Failed() == is {
					t.Errorf("taken: %v, and the case has failed: %v", is, c.Failed())
				}
			})
		}
	}
}

// TestDescribeTellsBareCodes: what a plugin's library said by its code alone has a class, but its author wants to know why the rest is not there.
func TestDescribeTellsBareCodes(t *testing.T) {
	bare := "without a slipway Error"
	for err, told := range map[error]bool{
		&sdk.Error{Class: sdk.NotFound, Message: "x", Cause: status.Error(codes.NotFound, "x")}:                                     true,
		&sdk.Error{Class: sdk.NotFound, Message: "x"}:                                                                               false,
		&sdk.Error{Class: sdk.Unavailable, Reason: sdk.ReasonPluginGone, Message: "x", Cause: status.Error(codes.Unavailable, "x")}: false,
		sdk.NewInternal(errors.New("y"), "x"):                                                                                       false,
	} {
		if got := describe(err); strings.Contains(got, bare) != told {
			t.Errorf("%#v is %q", err, got)
		}
	}
}
