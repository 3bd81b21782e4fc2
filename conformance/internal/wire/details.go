package wire

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	detailsKey = "grpc-status-details-bin"
	errorName  = protoreflect.FullName(Package + "Error")
	errorURL   = "type.googleapis.com/" + string(errorName)
)

// failure is how a call ended, with the details as the plugin sent them: gRPC keeps nothing of those that it cannot read.
type failure struct {
	err     error // of package status
	details []string
}

func (f failure) Error() string              { return f.err.Error() }
func (f failure) Unwrap() error              { return f.err }
func (f failure) GRPCStatus() *status.Status { return status.Convert(f.err) }

func withDetails(err error, trailer metadata.MD) error {
	if err == nil || err == io.EOF {
		return err
	}
	return failure{err, trailer.Get(detailsKey)}
}

// Detail gives the contract's own part of an error; nil: there is none.
func Detail(err error) Message {
	for _, d := range status.Convert(err).Details() {
		if d, ok := d.(proto.Message); ok && d.ProtoReflect().Descriptor().FullName() == errorName {
			m, _ := decode(d)
			return m
		}
	}
	return nil
}

// WhyNoDetail says what an error had in the place of its detail, and what belongs there, to somebody whose library brings no google.rpc.Status.
func WhyNoDetail(err error) string {
	f, ok := err.(failure)
	switch {
	case !ok:
		return "it did not come from the plugin"
	case len(f.details) == 0:
		return "its trailing metadata has no " + detailsKey
	case len(f.details) > 1:
		return fmt.Sprintf("its trailing metadata has %s %d times, want it once", detailsKey, len(f.details))
	}
	return detailsKey + " " + wrapped([]byte(f.details[0]))
}

// wrapped says what bytes are that should be a google.rpc.Status with an Error in an Any.
func wrapped(b []byte) string {
	const want = "; want a google.rpc.Status with the call's code, whose details have the Error in an Any"
	s := status.New(codes.OK, "").Proto()
	switch whole := exactly(b, s); {
	case whole && len(s.Details) == 0 && len(b) > 0:
		return "is a google.rpc.Status without details" + want
	case whole && len(b) > 0:
		return misfit(s.Code, s.Details)
	}
	if t, err := protoregistry.GlobalTypes.FindMessageByName(errorName); err == nil && exactly(b, t.New().Interface()) && len(b) > 0 {
		return "is the Error itself, not wrapped" + want
	}
	if a := (&anypb.Any{}); exactly(b, a) && strings.Contains(a.TypeUrl, "/") {
		return "is the Any itself, not wrapped" + want
	}
	if raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(b), "=")); err == nil && len(raw) > 0 {
		return "is base64 once too often: gRPC itself makes base64 of it, so give it the bytes"
	}
	return fmt.Sprintf("is %d bytes that are no google.rpc.Status%s", len(b), want)
}

// misfit says what is wrong with a status that has details, of which no Error was read.
func misfit(code int32, details []*anypb.Any) string {
	for _, a := range details {
		if a.TypeUrl == errorURL {
			return fmt.Sprintf("has a google.rpc.Status with the code %d, want that of the call's own status", code)
		}
	}
	return fmt.Sprintf("has an Any of the type %q, want %q", details[0].TypeUrl, errorURL)
}

// exactly tells whether bytes are a message that has no other fields than those of its type.
func exactly(b []byte, m proto.Message) bool {
	return proto.Unmarshal(b, m) == nil && len(m.ProtoReflect().GetUnknown()) == 0
}
