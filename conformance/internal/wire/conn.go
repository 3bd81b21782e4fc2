package wire

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health/grpc_health_v1" // so that its messages are known by name
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/slipway-run/slipway/sdk/rpc" // likewise
)

// Package is the name of the contract's protobuf package, with a dot.
const Package = "slipway.runtime.v1alpha1."

// Message is a message as protobuf's JSON has it: fields by their names in the published files, bytes in base64, 64-bit numbers as strings. To be sent,
// values may also be []byte and numbers of any type.
type Message map[string]any

// At follows names into nested messages; nil: there is none.
func (m Message) At(names ...string) Message {
	for _, name := range names {
		next, _ := m[name].(map[string]any)
		m = next
	}
	return m
}

// Text gives a string or the name of an enum's value; empty: there is none.
func (m Message) Text(name string) string {
	s, _ := m[name].(string)
	return s
}

// Bytes gives bytes; nil: there are none.
func (m Message) Bytes(name string) []byte {
	b, _ := base64.StdEncoding.DecodeString(m.Text(name))
	return b
}

// Int gives a number; 0: there is none.
func (m Message) Int(name string) int64 {
	switch v := m[name].(type) {
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	case float64:
		return int64(v)
	}
	return 0
}

// Has tells whether a field is there.
func (m Message) Has(name string) bool {
	_, ok := m[name]
	return ok
}

// Conn is a connection to a plugin. Its methods may be called from many goroutines.
type Conn struct{ conn *grpc.ClientConn }

// Dial gives a connection to a unix socket, which is made when the first call needs it. It is closed with the process.
func (p *Process) Dial(socket string) (*Conn, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(4<<20), grpc.WaitForReady(false)))
	if err != nil {
		return nil, err
	}
	c := &Conn{conn}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
	return c, nil
}

// method is one of a service.
type method struct {
	desc protoreflect.MethodDescriptor
	path string
}

// find finds a method by a name such as "Worker/Status" or "grpc.health.v1.Health/Check".
func find(name string) (method, error) {
	service, call, ok := strings.Cut(name, "/")
	if !ok {
		return method{}, fmt.Errorf("%q is no name of a method", name)
	}
	if !strings.Contains(service, ".") {
		service = Package + service
	}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + call))
	if err != nil {
		return method{}, fmt.Errorf("%s: %w", name, err)
	}
	desc, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return method{}, fmt.Errorf("%s is no method", name)
	}
	return method{desc, "/" + service + "/" + call}, nil
}

func newMessage(d protoreflect.MessageDescriptor) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		return nil, err
	}
	return t.New().Interface(), nil
}

// encode makes a message of what is to be sent. A field named "?" makes one that no version knows.
func encode(d protoreflect.MessageDescriptor, m Message) (proto.Message, error) {
	to, err := newMessage(d)
	if err != nil {
		return nil, err
	}
	known := make(Message, len(m))
	for name, value := range m {
		if name != "?" {
			known[name] = value
		}
	}
	text, err := json.Marshal(known) // []byte becomes base64, as protobuf's JSON wants it
	if err != nil {
		return nil, err
	}
	if err := protojson.Unmarshal(text, to); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name(), err)
	}
	if m.Has("?") {
		to.ProtoReflect().SetUnknown(newer())
	}
	return to, nil
}

// newer is a field of number 1000, which holds 1.
func newer() []byte { return []byte{0xc0, 0x3e, 0x01} }

func decode(from proto.Message) (Message, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(from)
	if err != nil {
		return nil, err
	}
	var m Message
	return m, json.Unmarshal(text, &m)
}

// Call makes a call that answers once. The error of a plugin is one of package status.
func (c *Conn) Call(ctx context.Context, name string, request Message) (Message, error) {
	m, err := find(name)
	if err != nil {
		return nil, err
	}
	in, err1 := encode(m.desc.Input(), request)
	out, err2 := newMessage(m.desc.Output())
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	var trailer metadata.MD
	if err := c.conn.Invoke(ctx, m.path, in, out, grpc.Trailer(&trailer)); err != nil {
		return nil, withDetails(err, trailer)
	}
	return decode(out)
}

// Stream is a call with a stream on one side or both.
type Stream struct {
	desc   protoreflect.MethodDescriptor
	stream grpc.ClientStream
}

// Stream begins a call. It ends with ctx.
func (c *Conn) Stream(ctx context.Context, name string) (*Stream, error) {
	m, err := find(name)
	if err != nil {
		return nil, err
	}
	desc := &grpc.StreamDesc{ServerStreams: m.desc.IsStreamingServer(), ClientStreams: m.desc.IsStreamingClient()}
	s, err := c.conn.NewStream(ctx, desc, m.path)
	if err != nil {
		return nil, err
	}
	return &Stream{m.desc, s}, nil
}

// Ask begins a call with its only request.
func (c *Conn) Ask(ctx context.Context, name string, request Message) (*Stream, error) {
	s, err := c.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.Send(request), s.CloseSend())
}

// Send sends a message. What the plugin has against it comes from Recv.
func (s *Stream) Send(m Message) error {
	in, err := encode(s.desc.Input(), m)
	if err != nil {
		return err
	}
	if err := s.stream.SendMsg(in); err != nil && err != io.EOF {
		return err
	}
	return nil
}

// CloseSend says that nothing more is sent.
func (s *Stream) CloseSend() error { return s.stream.CloseSend() }

// Recv awaits the next message. The end of a call that went well is io.EOF.
func (s *Stream) Recv() (Message, error) {
	out, err := newMessage(s.desc.Output())
	if err != nil {
		return nil, err
	}
	if err := s.stream.RecvMsg(out); err != nil {
		return nil, withDetails(err, s.stream.Trailer())
	}
	return decode(out)
}

// Rest receives until the call ends, and gives how: nil is a call that went well.
func (s *Stream) Rest() ([]Message, error) {
	var all []Message
	for {
		m, err := s.Recv()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

// Parse reads a message that was sent as a request of a method, or as its answer. Newer tells whether there was something in it that this version does
// not know.
func Parse(name string, answer bool, frame []byte) (m Message, newer bool, err error) {
	to, err := blank(name, answer)
	if err != nil {
		return nil, false, err
	}
	if err := proto.Unmarshal(frame, to); err != nil {
		return nil, false, err
	}
	m, err = decode(to)
	return m, len(to.ProtoReflect().GetUnknown()) > 0, err
}

// Build makes what is sent as a request of a method, or as its answer.
func Build(name string, answer bool, m Message) ([]byte, error) {
	to, err := blank(name, answer)
	if err != nil {
		return nil, err
	}
	if to, err = encode(to.ProtoReflect().Descriptor(), m); err != nil {
		return nil, err
	}
	return proto.Marshal(to)
}

func blank(name string, answer bool) (proto.Message, error) {
	m, err := find(name)
	if err != nil {
		return nil, err
	}
	if answer {
		return newMessage(m.desc.Output())
	}
	return newMessage(m.desc.Input())
}

// BuildError makes what stands in the details of a status that is not OK.
func BuildError(m Message) ([]byte, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByName(errorName)
	if err != nil {
		return nil, err
	}
	e, err := encode(t.Descriptor(), m)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(e)
}
