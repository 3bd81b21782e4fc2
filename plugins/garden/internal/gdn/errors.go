package gdn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"code.cloudfoundry.org/garden"

	"github.com/slipway-run/slipway/sdk"
)

// Refusal is a server's answer that it will not, in its own words. It gives no reason that a program could tell.
type Refusal struct{ Message string }

// Error gives the server's words.
func (r *Refusal) Error() string { return r.Message }

// strange is an answer that no Garden server gives.
type strange struct {
	status int
	said   string
}

func (s *strange) Error() string {
	return fmt.Sprintf("it answered %d and what is not Garden's: %q; is there another server at this address?", s.status, s.said)
}

// said makes what a server sent fit to be shown.
func said(text []byte) string {
	const most = 2 << 10
	if len(text) > most {
		text = append(text[:most:most], "..."...)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == ' ' {
			return r
		}
		return ' '
	}, strings.TrimSpace(strings.ToValidUTF8(string(text), "?")))
}

// fail makes an error of the contract of one that came from the library. A refusal without a reason is Internal, with the [*Refusal] as its cause.
func (s *Server) fail(ctx context.Context, handle string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*sdk.Error](err); ok {
		return err
	}
	var of string
	if handle != "" {
		of = fmt.Sprintf("container %q: ", handle)
	}
	if e, ok := errors.AsType[garden.ContainerNotFoundError](err); ok {
		return &sdk.Error{Class: sdk.NotFound, Kind: sdk.KindContainer, ID: handle, Message: fmt.Sprintf("container %q is not there: %s says %q", handle, s, e.Error())}
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return &sdk.Error{Class: sdk.Internal, Message: fmt.Sprintf("%s%s refuses: %s", of, s, r.Message), Cause: r}
	}
	if e, ok := errors.AsType[garden.ExecutableNotFoundError](err); ok {
		return &sdk.Error{Class: sdk.Internal, Message: fmt.Sprintf("%s%s refuses: %s", of, s, said([]byte(e.Message))), Cause: &Refusal{said([]byte(e.Message))}}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return sdk.NewUnavailable(err, "%s%s does not answer within %v", of, s, s.c.RequestTimeout)
	}
	return sdk.NewUnavailable(err, "%s%s: %s", of, s, said([]byte(err.Error())))
}
