package wire

import (
	"encoding/base64"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/slipway-run/slipway/internal/testkit"
)

// TestDetailsThatAreNone: whoever has no library for errors' details is told what they sent in their place.
func TestDetailsThatAreNone(t *testing.T) {
	request, err := blank("Worker/SealVolume", false)
	if err != nil {
		t.Fatal(err)
	}
	other, err := anypb.New(request)
	if err != nil {
		t.Fatal(err)
	}
	bare := errorBytes(t)
	in := &anypb.Any{TypeUrl: errorURL, Value: bare}
	wrapped := func(code codes.Code, details ...*anypb.Any) []byte {
		s := status.New(code, "volume \"v\" not found").Proto()
		s.Details = details
		return marshal(t, s)
	}
	good := wrapped(codes.NotFound, in)
	for what, c := range map[string]struct {
		sent []string
		says string // empty: it is a detail
	}{
		"as it should be":    {[]string{string(good)}, ""},
		"none":               {nil, "its trailing metadata has no grpc-status-details-bin"},
		"twice":              {[]string{string(good), string(good)}, "grpc-status-details-bin 2 times"},
		"an Error":           {[]string{string(bare)}, "grpc-status-details-bin is the Error itself, not wrapped; want a google.rpc.Status"},
		"an Any":             {[]string{string(marshal(t, in))}, "grpc-status-details-bin is the Any itself, not wrapped; want a google.rpc.Status"},
		"an empty Status":    {[]string{string(wrapped(codes.NotFound))}, "grpc-status-details-bin is a google.rpc.Status without details; want"},
		"another code":       {[]string{string(wrapped(codes.Aborted, in))}, "has a google.rpc.Status with the code 10, want that of the call's own status"},
		"another type":       {[]string{string(wrapped(codes.NotFound, other))}, `has an Any of the type "type.googleapis.com/slipway.runtime.v1alpha1.SealVolumeRequest", want "` + errorURL + `"`},
		"base64":             {[]string{base64.StdEncoding.EncodeToString(good)}, "grpc-status-details-bin is base64 once too often"},
		"base64, no padding": {[]string{base64.RawStdEncoding.EncodeToString(good)}, "grpc-status-details-bin is base64 once too often"},
		"text":               {[]string{"volume not found!"}, "grpc-status-details-bin is 17 bytes that are no google.rpc.Status; want"},
		"nothing":            {[]string{""}, "grpc-status-details-bin is 0 bytes that are no google.rpc.Status; want"},
	} {
		t.Run(what, func(t *testing.T) {
			conn := refuses(t, c.sent)
			_, unary := conn.Call(testkit.Context(t), "Worker/SealVolume", Message{"id": "v"})
			s, err := conn.Ask(testkit.Context(t), "Data/StreamOut", Message{"volume": "v"})
			if err != nil {
				t.Fatal(err)
			}
			_, streamed := s.Rest()
			for _, err := range []error{unary, streamed} {
				switch detail := Detail(err); {
				case c.says == "" && detail.Text("id") != "v":
					t.Errorf("the detail is %v; %v", detail, err)
				case c.says != "" && (detail != nil || !strings.Contains(WhyNoDetail(err), c.says)):
					t.Errorf("%q is said, want %q; the detail is %v", WhyNoDetail(err), c.says, detail)
				}
			}
		})
	}
}

// refuses is a plugin that refuses all calls as NotFound, with that in the place of details.
func refuses(t *testing.T, details []string) *Conn {
	t.Helper()
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		s.SetTrailer(metadata.MD{detailsKey: details})
		return status.Error(codes.NotFound, "volume \"v\" not found")
	}))
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	conn, err := (&Process{}).Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// errorBytes is the Error of a volume "v" that is not there.
func errorBytes(t *testing.T) []byte {
	t.Helper()
	m, err := protoregistry.GlobalTypes.FindMessageByName(errorName)
	if err != nil {
		t.Fatal(err)
	}
	e, err := encode(m.Descriptor(), Message{"error_class": "CLASS_NOT_FOUND", "kind": "volume", "id": "v", "message": "volume \"v\" not found"})
	if err != nil {
		t.Fatal(err)
	}
	return marshal(t, e)
}

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
