package rpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"reflect"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/slipway-run/slipway/sdk"
	"github.com/slipway-run/slipway/sdk/internal/pb"
	"github.com/slipway-run/slipway/sdk/rpc"
)

// answer is what a plugin of bytes answers to a call, whatever that is.
type answer struct {
	messages [][]byte
	code     codes.Code
	detail   []byte      // in place of the error's detail
	method   chan string // gives what was called: service and name
}

// serve gives the answer, and takes no notice of what was asked.
func (a *answer) serve(stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	a.method <- method
	for _, m := range a.messages {
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
	stream.SetTrailer(metadata.Pairs("grpc-status-details-bin", string(a.detail)))
	return status.Error(a.code, "said the plugin")
}

// bare is a codec whose messages are bytes.
type bare struct{}

func (bare) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (bare) Unmarshal(mem.BufferSlice, any) error { return nil }
func (bare) Name() string                         { return "proto" }

// split cuts messages out of bytes: each follows its length.
func split(in []byte) (messages [][]byte) {
	for {
		n, used := binary.Uvarint(in)
		if used <= 0 || n > uint64(len(in)-used) {
			return messages
		}
		messages = append(messages, in[used:used+int(n)])
		in = in[used+int(n):]
	}
}

func joined(messages ...[]byte) (out []byte) {
	for _, m := range messages {
		out = append(binary.AppendUvarint(out, uint64(len(m))), m...)
	}
	return out
}

// described finds what the contract says of a method: /service/name.
func described(t testing.TB, method string) protoreflect.MethodDescriptor {
	t.Helper()
	full := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(full)
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MethodDescriptor)
}

// fillMessage sets all fields of a message, those of a oneof but one, which pick chooses.
func fillMessage(m protoreflect.Message, pick, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() && o.Fields().Get(pick%o.Fields().Len()) != f {
			continue
		}
		switch {
		case depth > 4 || f.IsMap():
		case f.IsList() && f.Message() != nil:
			fillMessage(m.Mutable(f).List().AppendMutable().Message(), pick, depth+1)
		case f.IsList():
			m.Mutable(f).List().Append(someScalar(f))
		case f.Message() != nil:
			fillMessage(m.Mutable(f).Message(), pick, depth+1)
		default:
			m.Set(f, someScalar(f))
		}
	}
}

func someScalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("some")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("some"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(7)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(7)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(7)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(7)
	default:
		return protoreflect.ValueOfInt32(7)
	}
}

// FuzzAnswers has a plugin answer each call of the contract with any bytes. A call that succeeds was answered by whole messages that the contract
// has, and by a status that says so; what it gave its caller was in them; every error is one of the contract's; and none takes memory out of proportion to what was told.
func FuzzAnswers(f *testing.F) {
	var next atomic.Pointer[answer] // a call may be over before its answer is
	server := grpc.NewServer(grpc.ForceServerCodecV2(bare{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return next.Load().serve(stream) }))
	lis := listen(f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(lis) }()
	c, err := rpc.Dial(context.Background(), lis.Addr(), rpc.DialOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		err := c.Close()
		server.Stop()
		if err := errors.Join(err, <-served); err != nil {
			f.Error(err)
		}
	})
	rt := c.Runtime()
	w, err := rt.Worker("w")
	if err != nil {
		f.Fatal(err)
	}
	all := methods()
	delete(all, "Close") // of a worker: no call
	names := slices.Sorted(maps.Keys(all))

	detail, err := proto.Marshal(status.New(codes.NotFound, "").Proto())
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range names {
		none := &answer{code: codes.Unavailable, method: make(chan string, 1)}
		next.Store(none)
		_, _, _, _ = all[name][0].call(f.Context(), new(recorder), rt, w)
		made := described(f, <-none.method)
		message, err := protoregistry.GlobalTypes.FindMessageByName(made.Output().FullName())
		if err != nil {
			f.Fatal(err)
		}
		var each [][]byte
		for pick := range 5 {
			m := message.New()
			fillMessage(m, pick, 0)
			b, err := proto.Marshal(m.Interface())
			if err != nil {
				f.Fatal(err)
			}
			each = append(each, b)
			f.Add(uint8(i), joined(b), uint8(0), []byte(nil))
		}
		f.Add(uint8(i), joined(each...), uint8(0), []byte(nil))
		f.Add(uint8(i), joined(slices.Concat(each, [][]byte{{0xff, 0xff}})...), uint8(0), []byte(nil))
		f.Add(uint8(i), joined(each...), uint8(codes.NotFound), detail)
		f.Add(uint8(i), []byte{0}, uint8(0), []byte(nil))
		f.Add(uint8(i), []byte(nil), uint8(codes.Canceled), []byte("no status"))
	}
	for i, name := range names {
		if name != "StreamOut" && name != "ReadFile" {
			continue
		}
		whole := [][]byte{{chunkField, 4, 'd', 'a', 't', 'a'}}
		trailer, err := proto.Marshal(&pb.StreamOutResponse{Frame: &pb.StreamOutResponse_Trailer{Trailer: &pb.Trailer{
			Bytes: 4, Crc32C: proto.Uint32(crc32.Checksum([]byte("data"), crc32.MakeTable(crc32.Castagnoli)))}}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), joined(append(whole, trailer)...), uint8(0), []byte(nil))
		f.Add(uint8(i), joined(whole...), uint8(0), []byte(nil))
		f.Add(uint8(i), joined(append(whole, trailer, whole[0])...), uint8(0), []byte(nil))
		f.Add(uint8(i), joined(append(whole, trailer)...), uint8(codes.Internal), []byte(nil))
	}

	f.Fuzz(func(t *testing.T, method uint8, in []byte, code uint8, detail []byte) {
		name := names[int(method)%len(names)]
		now := &answer{messages: split(in), code: codes.Code(code % 17), detail: detail, method: make(chan string, 1)}
		next.Store(now)
		before := allocated()
		_, back, _, err := all[name][0].call(t.Context(), new(recorder), rt, w)
		if took, most := allocated()-before, uint64(mostTaken+takenForByte*(len(in)+len(detail))); took > most {
			t.Errorf("%s took %d bytes of memory for an answer of %d, at most %d can be", name, took, len(in)+len(detail), most)
		}
		if err != nil {
			e, ok := errors.AsType[*sdk.Error](err)
			if !ok || e.Class == "" {
				t.Errorf("%s: the error %T %v is none of the contract", name, err, err)
			}
			return
		}
		if now.code != codes.OK {
			t.Errorf("%s succeeded with status %v", name, now.code)
		}
		d := described(t, <-now.method)
		if !d.IsStreamingServer() && len(now.messages) != 1 {
			t.Errorf("%s succeeded with %d messages", name, len(now.messages))
		}
		message, err := protoregistry.GlobalTypes.FindMessageByName(d.Output().FullName())
		if err != nil {
			t.Fatal(err)
		}
		var told []proto.Message
		for _, b := range now.messages {
			m := message.New().Interface()
			if err := proto.Unmarshal(b, m); err != nil {
				t.Errorf("%s succeeded with a message that is none: %v", name, err)
			}
			told = append(told, m)
		}
		fits(t, name, told, back)
	})
}

// What a call may take in memory, in all, both sides of it: this, and so much for each byte of the answer, for two of them may be an empty message.
const (
	mostTaken    = 2 << 20
	takenForByte = 512
)

// allocated is how many bytes this program has taken so far, those that it has given back among them.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// chunkField is how a chunk's message begins on the wire: field 1, bytes.
const chunkField = 1<<3 | 2

// fits compares what a call that succeeded gave with what was told.
func fits(t *testing.T, name string, told []proto.Message, back []any) {
	switch name {
	case "StreamOut", "ReadFile":
		var data []byte
		var trailer *pb.Trailer
		for _, m := range told {
			frame := m.(interface {
				GetData() []byte
				GetTrailer() *pb.Trailer
			})
			data = append(data, frame.GetData()...)
			if trailer == nil {
				trailer = frame.GetTrailer()
			}
		}
		if trailer == nil || trailer.Bytes != int64(len(data)) || trailer.Crc32C != nil && *trailer.Crc32C != crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) {
			t.Errorf("%s succeeded with %d bytes and the trailer %v", name, len(data), trailer)
		}
		if got := back[0].(string); got != string(data) {
			t.Errorf("%s gave %q, and was told %q", name, got, data)
		}
	case "FollowProcess":
		opened, records, exits := back[0].([]sdk.Opened), back[1].([]sdk.Record), back[2].([]sdk.Exit)
		var rows, ends int
		for _, m := range told {
			frame := m.(*pb.FollowProcessResponse)
			rows += len(frame.GetRecords().GetRecords())
			if frame.GetExit() != nil {
				ends++
			}
		}
		if len(opened) != 1 || len(records) != rows || len(exits) != ends {
			t.Errorf("followed to %d openings, %d records, %d exits; told were %d records and %d exits", len(opened), len(records), len(exits), rows, ends)
		}
	case "ListVolumes", "ListContainers", "ListFiles":
		rows := 0
		for _, m := range told {
			rows += rowsOf(m)
		}
		if got := reflect.ValueOf(back[0]).Len(); got != rows {
			t.Errorf("%s gave %d rows, and was told %d", name, got, rows)
		}
	case "CreateContainer":
		if !slices.ContainsFunc(told, func(m proto.Message) bool { return m.(*pb.CreateContainerResponse).GetDone() != nil }) {
			t.Error("a container was created that nobody said to be done")
		}
	}
}

// rowsOf counts what is in the only list of a message.
func rowsOf(m proto.Message) int {
	r := m.ProtoReflect()
	return r.Get(r.Descriptor().Fields().Get(0)).List().Len()
}
