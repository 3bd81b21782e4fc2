package rpc

import (
	"encoding/binary"

	"google.golang.org/grpc/encoding"
	stock "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/slipway-run/slipway/sdk/internal/pb"
)

// codec is gRPC's own, but that it passes the bytes of chunks through as they are. What goes over the wire is the same, so
// that either side may be a stock one. Package mem, on which it is built, is experimental in gRPC: nothing of it shows outside
// this file, buffers.go, frames.go and chunk.go but the pool that the connections are given.
//
// It keeps two rules. The transport holds the bytes of an outgoing chunk until it has written them, long after SendMsg has
// returned: they are reference-counted, and the last one to let go gives them back to their pool. The bytes of an incoming
// one are the receiver's, who frees them once.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(stock.Name)} }

// chunkTag begins a message that has nothing but bytes in field 1, as the chunks of all streams do. See data.proto.
const chunkTag = 1<<3 | 2

// outgoing is a chunk to be sent. SendMsg may fail without having taken the bytes; release is to be called after it.
type outgoing struct{ bytes mem.Buffer }

func (o *outgoing) release() {
	if o.bytes != nil {
		o.bytes.Free()
		o.bytes = nil
	}
}

// incoming is a message to be received from a stream of chunks.
type incoming struct {
	chunk bool            // the message was a chunk
	bytes mem.BufferSlice // of the chunk; the receiver's
	other proto.Message   // else it is in here
}

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(*outgoing)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	head := binary.AppendUvarint([]byte{chunkTag}, uint64(out.bytes.Len()))
	data := mem.BufferSlice{mem.SliceBuffer(head), out.bytes}
	out.bytes = nil
	return data, nil
}

// Unmarshal implements [encoding.CodecV2]. Whatever is not exactly one chunk, such as one with fields of a newer peer, goes
// through gRPC's own codec.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return c.decode(data, v)
	}
	head, ok := chunkHead(data)
	if !ok {
		return c.decode(data, in.other)
	}
	in.chunk, in.bytes = true, without(data, head)
	return nil
}

// lightBytes is the size of messages that cannot come to much, whatever they hold.
const lightBytes = 32 << 10

// decode leaves to gRPC's own codec what is not too much once it is decoded.
func (c codec) decode(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if _, start := v.(*pb.StartProcessRequest); start || !ok || data.Len() <= lightBytes {
		return c.CodecV2.Unmarshal(data, v) // too many arguments are the host's mistake, which [sdk.ProcessSpec.Validate] tells it
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool()) // as gRPC's own would
	defer whole.Free()
	if err := weigh(whole.ReadOnlyData(), m.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// chunkHead gives the length of what comes before a chunk's bytes. It is false if the message is anything but a chunk.
func chunkHead(data mem.BufferSlice) (int, bool) {
	var start [1 + binary.MaxVarintLen64]byte
	n := data.CopyTo(start[:])
	if n == 0 || start[0] != chunkTag {
		return 0, false
	}
	size, used := binary.Uvarint(start[1:n])
	head := 1 + used
	if used <= 0 || size != uint64(data.Len()-head) {
		return 0, false
	}
	return head, true
}

// without gives all but the first n bytes, with references of its own.
func without(data mem.BufferSlice, n int) mem.BufferSlice {
	rest := make(mem.BufferSlice, 0, len(data))
	for _, b := range data {
		skip := min(n, b.Len())
		n -= skip
		if skip < b.Len() {
			rest = append(rest, b.Slice(skip, b.Len()))
		}
	}
	return rest
}
